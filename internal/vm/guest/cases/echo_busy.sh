# class: quick
echo_over busy
