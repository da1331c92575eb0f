// SVE1 records and the private folder: every lie of a record is named, joined ones lie in order, and a folder outlives nobody but a killed daemon.
#include "server/process/embeddings_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <limits>

#include "process_support.hpp"
#include "server/process/picture_folder.hpp"

using namespace vigil;
using namespace vigil::process;
using namespace vigil::process::testing;
using Catch::Matchers::Contains;
namespace fs = std::filesystem;

namespace {

const RecordShape two_by_three{2, 2, 1, 3};

struct Files : Scripts {
  std::string write(const std::string& name, const std::string& bytes) {
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }
};

}  // namespace

TEST_CASE("A right record", "[embeddings]") {
  Files files;
  const std::string bytes = encode_record(two_by_three, {1, 2, 3, 4, 5, -6.5});
  CHECK(bytes.size() == 20 + 24);
  CHECK(bytes.substr(0, 8) == std::string("SVE1\x02\0\0\0", 8));
  const auto size = check_record(files.write("good", bytes), two_by_three);
  REQUIRE(size.ok());
  CHECK(*size == 44);
  const RecordShape large{3000, 60, 50, 100};  // more than one block
  CHECK(check_record(files.write("large", encode_record(large, std::vector<float>(300000, 0.5f))), large).ok());
}

TEST_CASE("A record that lies is named for what it is", "[embeddings]") {
  Files files;
  const std::string good = encode_record(two_by_three, {1, 2, 3, 4, 5, 6});
  const auto error = [&](const std::string& bytes, const RecordShape& promised = two_by_three) {
    return check_record(files.write("record", bytes), promised).error();
  };
  CHECK(check_record(files.path("none"), two_by_three).error() == "it is not there");
  CHECK_THAT(error(""), Contains("0 bytes"));
  CHECK_THAT(error(good.substr(0, 19)), Contains("19 bytes, less than the header"));
  CHECK_THAT(error("SVE2" + good.substr(4)), Contains("does not begin with SVE1"));
  CHECK(error(good, {3, 3, 1, 3}) == "it holds 2 rows (2 x 1) of width 3; READY and OK said 3 rows (3 x 1) of width 3");
  CHECK_THAT(error(good, {2, 1, 2, 3}), Contains("(1 x 2)"));
  CHECK_THAT(error(good, {2, 2, 1, 4}), Contains("width 4"));
  CHECK(error(good.substr(0, good.size() - 1)) == "it has 43 bytes; 2 rows (2 x 1) of width 3 take 44");
  CHECK_THAT(error(good + "x"), Contains("it has 45 bytes"));
  for (const float wrong : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    CHECK(error(encode_record(two_by_three, {1, 2, 3, 4, wrong, 6})) == "row 1 holds a number that is not finite at column 1");
  }
  std::string negative = good;
  negative[7] = '\xFF';
  CHECK_THAT(error(negative), Contains("READY and OK said"));
}

TEST_CASE("What is no file is not waited for, and a link is not followed", "[embeddings]") {
  Files files;
  REQUIRE(::mkfifo(files.path("fifo").c_str(), 0600) == 0);
  CHECK(check_record(files.path("fifo"), two_by_three).error() == "it is not a file");
  fs::create_directory(files.path("folder"));
  CHECK(check_record(files.path("folder"), two_by_three).error() == "it is not a file");
  files.write("good", encode_record(two_by_three, {1, 2, 3, 4, 5, 6}));
  fs::create_symlink(files.path("good"), files.path("link"));
  CHECK_THAT(check_record(files.path("link"), two_by_three).error(), Contains("cannot be opened"));
}

TEST_CASE("A promise is bounded before any file is looked at", "[embeddings]") {
  CHECK(check_shape({1, 0, 0, 1}).ok());
  CHECK(check_shape({max_record_rows, 256, 256, 4000}).ok());
  for (const RecordShape& wrong : {RecordShape{0, 1, 1, 4}, RecordShape{-1, 1, 1, 4}, RecordShape{max_record_rows + 1, 1, 1, 4}, RecordShape{1, -1, 1, 4},
                                   RecordShape{1, 1, int64_t{1} << 40, 4}, RecordShape{1, 1, 1, 0}, RecordShape{max_record_rows, 1, 1, 1 << 20},
                                   RecordShape{max_record_rows, 1, 1, int64_t{1} << 52}}) {
    CHECK_FALSE(check_shape(wrong).ok());
    CHECK_FALSE(check_record("/nowhere", wrong).ok());
  }
}

TEST_CASE("Joined records lie one behind the other", "[embeddings]") {
  Files files;
  const std::string first = encode_record(two_by_three, {1, 2, 3, 4, 5, 6}), second = encode_record({1, 1, 1, 3}, {7, 8, 9});
  files.write("first", first);
  files.write("second", second);
  REQUIRE(join_records({files.path("first"), files.path("second"), files.path("first")}, files.path("all")).ok());
  CHECK(read_whole(files.path("all")) == first + second + first);
  CHECK((fs::status(files.path("all")).permissions() & fs::perms::all) == (fs::perms::owner_read | fs::perms::owner_write));
  CHECK_FALSE(join_records({files.path("first")}, files.path("all")).ok());  // never over another
  CHECK_THAT(join_records({files.path("first"), files.path("none")}, files.path("more")).error(), Contains("cannot be opened"));
  CHECK_FALSE(fs::exists(files.path("more")));
}

TEST_CASE("The place of the private folder", "[embeddings]") {
  using Places = std::vector<std::string>;
  CHECK(picture_folder_places("/run/own:/run/other", "/run/user/1", "/t") == Places{"/run/own", "/run/user/1", "/t", "/tmp"});
  CHECK(picture_folder_places(nullptr, "/run/user/1", "/t") == Places{"/run/user/1", "/t", "/tmp"});
  CHECK(picture_folder_places("relative", "", nullptr) == Places{"/tmp"});
  Files files;
  const auto made = PictureFolder::make_in_one_of({"/no/such/place", files.path(".")});
  REQUIRE(made.ok());
  CHECK_THAT(made->path(), Contains(files.path(".")));
  CHECK_THAT(PictureFolder::make_in_one_of({"/no/such/place", "/nor/this"}).error(),
             Contains("/no/such/place") && Contains("/nor/this") && Contains("No such file") && Contains("TMPDIR"));
}

TEST_CASE("The private folder is swept when its daemon is dead, and only then", "[embeddings]") {
  Files files;
  const std::string place = files.path("place");
  fs::create_directory(place);
  fs::create_directory(place + "/vigil-pictures-dead00");
  std::ofstream(place + "/vigil-pictures-dead00/1.picture") << "cat";
  fs::create_directory(place + "/another");
  std::ofstream(place + "/vigil-pictures-file") << "not a folder";
  fs::create_directory_symlink(place + "/another", place + "/vigil-pictures-link");
  std::string path;
  {
    auto living = PictureFolder::make(place);
    REQUIRE(living.ok());
    path = living->path();
    CHECK(living->swept() == std::vector<std::string>{place + "/vigil-pictures-dead00"});
    CHECK((fs::status(path).permissions() & fs::perms::all) == fs::perms::owner_all);
    std::ofstream(path + "/2.picture") << "dog";
    auto second = PictureFolder::make(place);
    REQUIRE(second.ok());
    CHECK(second->swept().empty());
    CHECK(fs::exists(path + "/2.picture"));
    const PictureFolder moved = std::move(*second);
    CHECK(fs::exists(moved.path()));
  }
  CHECK_FALSE(fs::exists(path));
  size_t left = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(place)) ++left;
  CHECK(left == 3);  // another, the file and the link
  CHECK_THAT(PictureFolder::make("/no/such/place").error(), Contains("/no/such/place"));
}
