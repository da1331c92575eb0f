// The vision child of a daemon: a VisionConductor (decides) on a ChildHost (process, pipes, timer) and files in a private folder. The desk's
// EncoderPort. All calls on the io_context's thread; files are written and read on a thread of their own. Not here: decisions.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "server/process/child_host.hpp"
#include "server/process/picture_folder.hpp"
#include "server/process/vision_conductor.hpp"
#include "server/supervise/child.hpp"
#include "server/turn/desk.hpp"

namespace vigil::process {

class VisionDriver final : public turn::EncoderPort {
 public:
  // `options.name` is "vision", in texts and in the marker.
  VisionDriver(boost::asio::io_context& io, DriverOptions options, VisionLimits limits, PictureFolder folder, DriverObserver observer);
  ~VisionDriver() override;                 // kills what is left without waiting; the folder goes

  void attach(turn::Desk& desk);            // before anything else
  void load();                              // start now
  // Requests that wait for a picture end at once; done when the tree is gone.
  void stop(supervise::Trouble why, bool at_once, std::function<void()> done);
  void switch_off();                        // stops it, and no picture starts it again before switch_on()
  void switch_on();
  void set_limits(const VisionLimits& limits);
  void set_options(DriverOptions options);  // others than now: hold as soon as no picture is with the child

  // turn::EncoderPort
  void encode(turn::RequestKey key, const std::vector<turn::Picture>& pictures) override;
  void abandon(turn::RequestKey key) override;

  const supervise::Child& child() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace vigil::process
