impair delay 1ms reorder 98%
duet connection
duet traffic
send_both bw 4096
grown rcvd_seq_err duplicate_request
