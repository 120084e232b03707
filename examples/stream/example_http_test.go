package stream_test

import (
	"fmt"
	"io"
	"log"
	"net/http"

	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/stream"
)

// An HTTP server and an HTTP client. Only two lines differ from a program that uses TCP:
// the listener of the server, and the dialer of the client's transport.
func Example_http() {
	network, closeNetwork := open()
	defer closeNetwork()

	ln, err := network.Listen("tcp", "127.0.0.1:0") // net.Listen
	check(err)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "hello, %s", r.URL.Path[1:])
	})}
	go server.Serve(ln)
	defer server.Close()

	client := &http.Client{Transport: &http.Transport{
		DialContext: network.DialContext, // (&net.Dialer{}).DialContext
	}}
	defer client.CloseIdleConnections()
	response, err := client.Get("http://" + ln.Addr().String() + "/world")
	check(err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	check(err)
	fmt.Printf("%s: %s\n", response.Status, body)
	// Output: 200 OK: hello, world
}

// open makes a Network on the software device, which needs no hardware and no privileges.
func open() (network *stream.Network, closeNetwork func()) {
	device, err := soft.Open(nil)
	check(err)
	network, err = stream.New(device, nil)
	check(err)
	return network, func() {
		check(network.Close())
		check(device.Close())
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
