package stream_test

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// A healthServer answers unary calls with its status, and streaming calls with two
// statuses.
type healthServer struct {
	grpc_health_v1.UnimplementedHealthServer
}

func (healthServer) Check(context.Context, *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVING}, nil
}

func (healthServer) Watch(_ *grpc_health_v1.HealthCheckRequest, s grpc.ServerStreamingServer[grpc_health_v1.HealthCheckResponse]) error {
	for _, status := range []grpc_health_v1.HealthCheckResponse_ServingStatus{
		grpc_health_v1.HealthCheckResponse_SERVING, grpc_health_v1.HealthCheckResponse_NOT_SERVING,
	} {
		if err := s.Send(&grpc_health_v1.HealthCheckResponse{Status: status}); err != nil {
			return err
		}
	}
	return nil
}

// A gRPC server and client, with a unary call and a streaming call. The client has a
// dialer of its own, and the prefix "passthrough:///" keeps gRPC from resolving the name.
func Example_grpc() {
	network, closeNetwork := open()
	defer closeNetwork()

	ln, err := network.Listen("tcp", "127.0.0.1:0") // net.Listen
	check(err)
	server := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(server, healthServer{})
	go server.Serve(ln)
	defer server.Stop()

	conn, err := grpc.NewClient("passthrough:///"+ln.Addr().String(),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			return network.DialContext(ctx, "tcp", addr)
		}),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(err)
	defer conn.Close()
	client := grpc_health_v1.NewHealthClient(conn)

	ctx := context.Background()
	response, err := client.Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	check(err)
	fmt.Println("unary:", response.Status)
	statuses, err := client.Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
	check(err)
	for response, err := statuses.Recv(); err == nil; response, err = statuses.Recv() {
		fmt.Println("streamed:", response.Status)
	}
	// Output:
	// unary: SERVING
	// streamed: SERVING
	// streamed: NOT_SERVING
}
