package main

import (
	"fmt"
	"os"

	"github.com/panjf2000/gnet/v2"
	"github.com/panjf2000/gnet/v2/pkg/logging"
)

func gnetPeer() *peer {
	return &peer{
		name:     "gnet",
		variants: []variant{{"tcp", "event"}},
		fits:     func(c Case) bool { return !c.oneSided() && c.Workload != workLoops },
		serve:    serveGnet,
		connect:  connectGnet,
	}
}

// gnetOptions returns gnet's defaults with one event loop. gnet sets TCP_NODELAY by
// default.
func gnetOptions() gnet.Option {
	return gnet.WithOptions(gnet.Options{NumEventLoop: 1, Logger: errorLog{}})
}

// An errorLog writes gnet's errors to the standard error and drops other messages. The
// standard output is only for notes.
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
