# The package's ucmatose with itself.
serve ucmatose -b $ADDR -c 3
ucmatose -s $ADDR -c 3
served
