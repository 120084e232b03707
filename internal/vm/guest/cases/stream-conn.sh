# The tests of package nettest for a net.Conn, on the kernel's device.
/go/stream.test -test.run TestConn -test.v -provider rdmacore -addr $ADDR
