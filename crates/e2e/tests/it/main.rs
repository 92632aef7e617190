//! The whole system, as the people who use it meet it: processes, sockets, the command line.

mod architecture;
