package main

import (
	"fmt"
	"os"

	"github.com/panjf2000/gnet/v2"
	"github.com/panjf2000/gnet/v2/pkg/logging"
)

func gnetPeer() *peer {
	return &peer{
		name:    "gnet",
		ways:    []way{{"tcp", "event"}},
		fits:    func(c Case) bool { return !c.oneSided() },
		serve:   serveGnet,
		connect: connectGnet,
	}
}

// gnetOptions are the defaults, with one loop: TCP_NODELAY is among them.
func gnetOptions() gnet.Option {
	return gnet.WithOptions(gnet.Options{NumEventLoop: 1, Logger: errorLog{}})
}

// An errorLog keeps what gnet says off the standard output, where the notes go.
type errorLog struct{}

var _ logging.Logger = errorLog{}

func (errorLog) Debugf(string, ...any) {}
func (errorLog) Infof(string, ...any)  {}
func (errorLog) Warnf(string, ...any)  {}

func (errorLog) Errorf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}

func (errorLog) Fatalf(format string, args ...any) {
	errorLog{}.Errorf(format, args...)
	os.Exit(exitFailed)
}
