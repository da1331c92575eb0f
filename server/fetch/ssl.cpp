// Asio's TLS, compiled once. Not here: anything of ours.
#include <boost/asio/ssl/impl/src.hpp>
