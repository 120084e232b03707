impair duplicate 10%
duet connection
duet traffic
send_both bw 4096
felt duplicate_request
