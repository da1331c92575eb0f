// From a decoded picture to what an encoder takes: one or more tiles of normalised values. Each projector's rule is that of the reference
// (llama.cpp, tools/mtmd), held to its values by the golden test. Not here: decoding, encoding.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "vision/image/image.hpp"
#include "vision/preprocess/resize.hpp"

namespace vigil::vision {

struct Preprocessing {
  enum class Rule {
    square,  // one tile of `side`: gemma3, llava
    tiles,   // idefics3: tiles of `side` over the picture stretched to multiples of it, and last the whole picture in one tile
    cells,   // qwen: one tile whose sides are multiples of `cell`, near the picture's own size within a least and a most
  };
  Rule rule = Rule::square;
  int64_t side = 0;
  Filter filter = Filter::bilinear;
  Fill fill{0, 0, 0};
  int64_t longest = 0;                    // tiles: the longer side of the picture that is cut
  int64_t cell = 0;                       // cells
  int64_t least_pixels = 0, most_pixels = 0;
  std::array<float, 3> mean{}, deviation{};
};

struct Tile {
  int64_t width = 0, height = 0;
  std::vector<float> planes;  // [3, height, width]
};

struct Tiles {
  int64_t columns = 0, rows = 0;  // of the grid that the picture was cut into; 0 x 0: it was not
  std::vector<Tile> tiles;        // row by row; the whole picture last
};

struct Size {
  int64_t width = 0, height = 0;
  bool operator==(const Size&) const = default;
};
// The size that a picture gets by the rule `cells` (Qwen2-VL's "smart resize") and, before it is cut, by `tiles`.
Size cell_size(Size picture, const Preprocessing& how);
Size cut_size(Size picture, const Preprocessing& how);
int64_t tiles_along(const Preprocessing& how);  // the most tiles along a side by the rule `tiles`

Tiles preprocess(const Image& picture, const Preprocessing& how);

}  // namespace vigil::vision
