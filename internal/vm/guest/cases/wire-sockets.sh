# The soft device's tests of UDP sockets, on this kernel and without privileges.
$in_peer /go/soft.test -test.run 'UDP' -test.v >/tmp/sockets || { cat /tmp/sockets; exit 1; }
grep '^--- ' /tmp/sockets
grep -q '^--- PASS: TestUDPOutletKnowsTheIdentification' /tmp/sockets
