impair duplicate 10%
duet connection
duet traffic
send_both bw 4096
grown duplicate_request
