package netaddr

var Suitable = suitable
