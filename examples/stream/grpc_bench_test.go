package stream_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// networkEnv makes the test program a gRPC server, over the network that it names.
const networkEnv = "RDMALOOP_GRPC_SERVER"

func TestMain(m *testing.M) {
	if name := os.Getenv(networkEnv); name != "" {
		serveGRPC(name)
	}
	os.Exit(m.Run())
}

// BenchmarkGRPC compares a unary call over TCP and over RDMA. The server is another
// process.
func BenchmarkGRPC(b *testing.B) {
	for _, name := range []string{"tcp", "rdma"} {
		b.Run(name, func(b *testing.B) { benchmarkGRPC(b, name) })
	}
}

func benchmarkGRPC(b *testing.B, name string) {
	server := exec.Command(os.Args[0])
	server.Env = append(os.Environ(), networkEnv+"="+name)
	server.Stderr = os.Stderr
	output, err := server.StdoutPipe()
	require.NoError(b, err)
	input, err := server.StdinPipe() // The server exits when this is closed.
	require.NoError(b, err)
	require.NoError(b, server.Start())
	defer func() {
		require.NoError(b, input.Close())
		require.NoError(b, server.Wait())
	}()
	addr, err := bufio.NewReader(output).ReadString('\n')
	require.NoError(b, err)

	dial := (&net.Dialer{}).DialContext
	if name == "rdma" {
		network, closeNetwork := open()
		defer closeNetwork()
		dial = network.DialContext
	}
	conn, err := grpc.NewClient("passthrough:///"+strings.TrimSpace(addr),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) { return dial(ctx, "tcp", addr) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(b, err)
	defer conn.Close()
	client := grpc_health_v1.NewHealthClient(conn)
	for b.Loop() {
		_, err := client.Check(context.Background(), &grpc_health_v1.HealthCheckRequest{})
		require.NoError(b, err)
	}
}

// serveGRPC serves until the standard input ends, and exits.
func serveGRPC(name string) {
	listen, closeNetwork := net.Listen, func() {}
	if name == "rdma" {
		n, end := open()
		listen, closeNetwork = n.Listen, end
	}
	ln, err := listen("tcp", "127.0.0.1:0")
	check(err)
	server := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(server, healthServer{})
	go func() {
		_, _ = os.Stdin.Read(make([]byte, 1))
		server.Stop()
	}()
	fmt.Println(ln.Addr())
	check(server.Serve(ln))
	closeNetwork()
	os.Exit(0)
}
