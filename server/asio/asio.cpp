// Asio and Beast, compiled once for the whole daemon. Not here: anything of ours.
#include <boost/asio/impl/src.hpp>
#include <boost/beast/src.hpp>
