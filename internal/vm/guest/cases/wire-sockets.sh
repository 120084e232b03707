# What our device expects of UDP sockets, on this kernel and without privileges.
$there /go/soft.test -test.run 'UDP'
