# class: full
# One loop on each side with more connections than a completion queue of the device has
# room for. Each connection can have 129 completions outstanding, and the device's largest
# queue holds 32,767. Every connection echoes two messages.
serve /go/echo $rdmacore -listen $ADDR:7471
/go/echo $rdmacore -connect $ADDR:7471 -conns 2000 -count 4000 -duration 0 2>&1 | cat
stop_server
