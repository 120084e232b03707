# class: full
impair duplicate 10%
pairtest connection
pairtest traffic
send_both bw 4096
grown duplicate_request
