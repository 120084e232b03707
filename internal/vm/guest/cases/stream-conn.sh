# class: full
# The tests of package nettest for a net.Conn, on the kernel's device.
tested /go/stream.test -test.run TestConn -provider rdmacore -addr $ADDR
