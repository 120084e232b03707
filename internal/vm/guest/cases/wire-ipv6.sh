# class: full
ADDR=[fd00::1]
PEER=[fd00::2]
pairtest connection
pairtest traffic
pairtest datagram
