# class: full
# The tests of the soft device's UDP sockets, on this kernel and without privileges.
$in_peer /go/udp.test -test.skip 'Overflow' -test.v >/tmp/sockets || { cat /tmp/sockets; exit 1; }
grep '^--- ' /tmp/sockets
grep -q '^--- PASS: TestConnectedSocketKnowsTheIPID' /tmp/sockets
