# The real engine under the daemon against the shared data, over HTTP.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
set(http_scale 1)
if(VIGIL_SANITIZE)
  set(http_scale 4)
endif()
math(EXPR http_limit "240 * ${http_scale}")
foreach(script http_stories lying_models hostile_bodies captured_dialects captured_bodies bad_pictures)
  add_test(NAME "shared: ${script}"
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/${script}.py --bin ${CMAKE_BINARY_DIR}/bin --shared ${VIGIL_SHARED})
  set_tests_properties("shared: ${script}" PROPERTIES LABELS shared TIMEOUT ${http_limit} ENVIRONMENT PROCESS_TEST_SCALE=${http_scale})
endforeach()
