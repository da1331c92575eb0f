// Notices when the keeper dies before its daemon (killed by hand, or for memory) and starts another. Not here: what a keeper does.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "server/process/keeper.hpp"

namespace boost::asio {
class io_context;
}

namespace vigil::process {

class KeeperWatch {
 public:
  // `keeper` must outlive this; stop it after this is gone. `log` gets a line for each death and each failed start.
  KeeperWatch(boost::asio::io_context& io, Keeper& keeper, std::string instance, std::function<void(const std::string&)> log);
  ~KeeperWatch();

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace vigil::process
