# class: quick
echo_over adaptive
