ADDR=[fd00::1]
PEER=[fd00::2]
duet connection
duet traffic
duet datagram
