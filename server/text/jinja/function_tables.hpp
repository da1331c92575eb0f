// Which file gives which functions. Not here: what they do.
#pragma once

#include <vector>

#include "server/text/jinja/functions.hpp"

namespace vigil::text::jinja {

template <typename Function>
using Table = std::vector<Entry<Function>>;

Table<Filter> text_filters();       // filters_text.cpp
Table<Filter> value_filters();      // filters_value.cpp
Table<Filter> sequence_filters();   // filters_sequence.cpp
Table<Filter> order_filters();      // filters_order.cpp
Table<Test> value_tests();          // tests.cpp
Table<Global> global_functions();   // globals.cpp
Table<Method> string_methods();     // methods_string.cpp
Table<Method> string_look_methods();  // methods_string_look.cpp
Table<Method> list_methods();       // methods_container.cpp
Table<Method> tuple_methods();
Table<Method> dict_methods();
Table<Method> number_methods();
Table<Method> loop_methods();       // globals.cpp
Table<Method> cycler_methods();

}  // namespace vigil::text::jinja
