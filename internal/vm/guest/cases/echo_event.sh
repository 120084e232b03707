echo_over event
