# class: quick
echo_over event
