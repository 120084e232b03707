package stream_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/tidwall/redcon"
)

// A Redis client and a small server that speaks its protocol (package redcon). The server
// serves a net.Listener, and the client has an option for its dialer.
func Example_redis() {
	network, closeNetwork := open()
	defer closeNetwork()

	ln, err := network.Listen("tcp", "127.0.0.1:0") // net.Listen
	check(err)
	values := map[string]string{}
	server := redcon.NewServerNetwork("tcp", ln.Addr().String(), func(c redcon.Conn, command redcon.Command) {
		switch strings.ToLower(string(command.Args[0])) {
		case "set":
			values[string(command.Args[1])] = string(command.Args[2])
			c.WriteString("OK")
		case "get":
			c.WriteBulkString(values[string(command.Args[1])])
		default:
			c.WriteError("ERR unknown command")
		}
	}, nil, nil)
	go server.Serve(ln)
	defer server.Close()

	client := redis.NewClient(&redis.Options{
		Addr:     ln.Addr().String(),
		Dialer:   network.DialContext, // (&net.Dialer{}).DialContext
		Protocol: 2,
	})
	defer client.Close()
	ctx := context.Background()
	check(client.Set(ctx, "color", "red", 0).Err())
	value, err := client.Get(ctx, "color").Result()
	check(err)
	fmt.Println(value)
	// Output: red
}
