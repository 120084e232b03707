# class: quick
# The address chooses the provider: rdmacore for the address of the kernel's device, soft
# for loopback.
provider_of() {
	grep -o '"provider": *"[a-z]*"'
}
serve /go/echo -listen $ADDR:7471
/go/echo -connect $ADDR:7471 -count 100 -duration 0 -json | provider_of | grep rdmacore
stop_server
/go/echo -count 100 -duration 0 -json | provider_of | grep soft
