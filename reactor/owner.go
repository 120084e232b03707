package reactor

import (
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/rdmaloop/rdmaloop/internal/goroutine"
)

// An owner is the goroutine that runs a loop. It finds out that the program uses the loop,
// or what belongs to it, on another goroutine. Without it, messages would be lost without
// any sign.
//
// An engine's own loop has one goroutine, from before OnBoot until OnShutdown has returned.
// A loop made with NewLoop may be handed from one goroutine to another, so that its
// goroutine is certain only while the loop runs.
type owner struct {
	id atomic.Uintptr // goroutine.ID of the goroutine, or 0 if it is not known
	// moves is true for a loop made with NewLoop.
	moves bool
	// running is true while a loop made with NewLoop runs, and while OnBoot runs. Then the
	// loop refuses RunOnce, Poll and Close. It stays true after a panic; see hasPanicked.
	running bool
	// anyone is true for a simulated loop, which never runs beside the goroutine of the test.
	anyone bool
}

// take makes the calling goroutine the owner.
func (o *owner) take() { o.id.Store(goroutine.ID()) }

// leave makes the owner unknown.
func (o *owner) leave() { o.id.Store(0) }

// begin is called when a loop made with NewLoop begins to run, and before OnBoot. If the
// loop was handed to this goroutine, refuse finds it out, because that takes long.
func (o *owner) begin() {
	o.running = true
	if goroutine.Fast && o.id.Load() == 0 {
		o.take()
	}
}

// isCaller reports whether the owner is certainly the caller.
func (o *owner) isCaller() bool {
	id := o.id.Load()
	return id != 0 && (!o.moves || o.running) && id == goroutine.ID()
}

// hasPanicked reports whether the caller has recovered from a panic that has ended the last
// run of the loop: it is the owner, and not in a callback.
func (o *owner) hasPanicked() bool { return (o.isCaller() || !goroutine.Fast) && !inCallback() }

// check panics if the owner is certainly not the caller. Each exported method that belongs to
// the loop calls it. If the processor makes it slow to find out, check does nothing.
func (o *owner) check() {
	if goroutine.Fast && o.id.Load() != 0 {
		o.compare()
	}
}

//go:nosplit
func (o *owner) compare() {
	if o.id.Load() != goroutine.ID() {
		o.refuse()
	}
}

// refuse panics, unless the owner is not certain, or the caller is in a callback of a loop,
// and so probably a new owner. To read the field running is a race only if the program is
// wrong.
//
//go:noinline
func (o *owner) refuse() {
	switch {
	case o.anyone, o.moves && !o.running:
		return
	case o.moves && inCallback():
		o.take()
		return
	}
	panic("reactor: " + calledMethod() + " was called on another goroutine than that of its loop: call it in a function that is passed to PostWait of the connection or the loop, or to Post if the caller must not block")
}

// calledMethod returns the method of this package that the program has called, such as
// "Conn.Send".
func calledMethod() (method string) {
	frames := runtime.CallersFrames(callers())
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		name, own := strings.CutPrefix(f.Function, "github.com/rdmaloop/rdmaloop/reactor.")
		if !own {
			break
		}
		method = name
	}
	return strings.NewReplacer("(*", "", ")", "").Replace(method)
}

// programPlace returns the file and the line of the program that has called this package, or
// one of those that make engines for the program.
func programPlace() string {
	frames := runtime.CallersFrames(callers())
	for {
		f, more := frames.Next()
		name, _ := strings.CutPrefix(f.Function, "github.com/rdmaloop/rdmaloop/")
		pkg, _, _ := strings.Cut(name, ".")
		if !more || pkg != "reactor" && pkg != "stream" && pkg != "gnetrdma" {
			return fmt.Sprintf("%s:%d", f.File, f.Line)
		}
	}
}

// inCallback reports whether the caller is in a callback of a loop.
func inCallback() bool {
	calls := []uintptr{entry((*Loop).boot), entry((*Loop).turn), entry((*Loop).end), entry((*Loop).endNow)}
	return slices.ContainsFunc(callers(), func(pc uintptr) bool {
		return slices.Contains(calls, runtime.FuncForPC(pc-1).Entry())
	})
}

// entry returns the address of a function.
func entry(fn any) uintptr { return reflect.ValueOf(fn).Pointer() }

// callers returns the program counters on the stack of the caller's caller.
func callers() []uintptr {
	pcs := make([]uintptr, 256)
	return pcs[:runtime.Callers(3, pcs)]
}
