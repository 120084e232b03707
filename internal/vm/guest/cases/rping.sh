# The package's rping with itself.
serve rping -s -a $ADDR -C 10 -V
rping -c -a $ADDR -C 10 -V
served
