echo_over busy
