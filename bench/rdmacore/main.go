//go:build rdmacore && cgo && linux

// Command rdmacore measures how much time packages rdmacore and reactor add to a
// message. It uses a device that takes no time, which is a stub in C: see stub.h.
//
// Two processes on two processors exchange messages in five steps. Each step adds one
// layer:
//
//   - c: a loop in C that calls ibv_post_send, ibv_poll_cq and ibv_post_recv
//   - linked: the same loop in Go with package rdmacore, in a program that is linked to the
//     stub
//   - provider: the same in a program that opens the stub as a library when it runs, as all
//     programs do that are built without the tag rdmacore
//   - reactor: an engine with one busy loop at each end
//   - echo: like reactor, and for each message the client also reads the clock twice,
//     records the time in a histogram, and compares the bytes
//
// The steps are measured in turn, several times. The program prints the time of one way,
// which is half of a round trip, and how much longer it is than in the first step.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
)

// steps are the names of the steps, in the order of the layers.
var steps = []string{"c", "linked", "provider", "reactor", "echo"}

// warmUpChunks is how many chunks at the beginning do not count. Arbitrary.
const warmUpChunks = 5

func main() {
	if len(os.Args) > 1 && os.Args[1] == childArg {
		exit(runChild(os.Args[2:]))
	}
	s := spec{}
	turns := flag.Int("turns", 9, "how often each step is measured")
	flag.IntVar(&s.Size, "size", 64, "bytes of a message, at most 96")
	flag.IntVar(&s.Rounds, "rounds", 200, "round trips of a chunk")
	flag.IntVar(&s.Chunks, "chunks", 1000, "chunks of a measurement; its result is their 10th percentile")
	out := flag.String("json", "", "write the times of one way to this `file`, in nanoseconds")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	times, err := measureAll(ctx, s, *turns)
	if err == nil {
		printTable(times)
	}
	if err == nil && *out != "" {
		err = writeJSON(*out, times)
	}
	exit(err)
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "rdmacore:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func writeJSON(name string, times map[string][]float64) error {
	data, err := json.MarshalIndent(times, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(name, append(data, '\n'), 0o666)
}

// measureAll measures each step once in each turn. For each step, it returns the times
// of one way in nanoseconds.
func measureAll(ctx context.Context, s spec, turns int) (map[string][]float64, error) {
	if s.Size < 1 || s.Size > 96 || turns < 1 || s.Rounds < 1 || s.Chunks <= warmUpChunks {
		return nil, fmt.Errorf("the size must be from 1 to 96, the chunks more than %d, and the other numbers positive", warmUpChunks)
	}
	programs, err := buildPrograms(ctx)
	if err != nil {
		return nil, err
	}
	defer programs.remove()
	times := map[string][]float64{}
	for turn := range turns {
		for i := range steps {
			// Every second turn measures the steps in reverse order, because the machine
			// may become slower during a turn.
			if turn%2 == 1 {
				i = len(steps) - 1 - i
			}
			s.Step = steps[i]
			chunks, err := measure(ctx, programs, &s)
			if err != nil {
				return nil, errors.Join(ctx.Err(), err)
			}
			times[s.Step] = append(times[s.Step], oneWay(chunks, s.Rounds))
		}
	}
	return times, nil
}

// oneWay returns the time of one way in nanoseconds, which is half of a round trip. Other
// programs on the machine can make a chunk take longer, but never shorter. So oneWay
// takes the 10th percentile of the chunks.
func oneWay(chunks []uint64, rounds int) float64 {
	return quantile(toFloats(chunks[warmUpChunks:]), 0.1) / float64(2*rounds)
}

func toFloats(list []uint64) (out []float64) {
	for _, n := range list {
		out = append(out, float64(n))
	}
	return out
}

func median(list []float64) float64 { return quantile(list, 0.5) }

// quantile returns the element below which the given share of the list lies. The share
// is from 0 to 1.
func quantile(list []float64, share float64) float64 {
	sorted := slices.Sorted(slices.Values(list))
	return sorted[int(share*float64(len(sorted)-1)+0.5)]
}

// printTable prints the times of one way for each step: the median, the quartiles, and
// the median differences to the first step and to the step before. A difference is taken
// within one turn.
func printTable(times map[string][]float64) {
	fmt.Println("one way, ns  median  quartiles    beyond c  beyond the step before")
	for i, step := range steps {
		list := times[step]
		fmt.Printf("%-11s  %6.0f  %4.0f-%-4.0f", step, median(list), quantile(list, 0.25), quantile(list, 0.75))
		if i > 0 {
			fmt.Printf("    %8.0f  %22.0f", median(differences(list, times[steps[0]])), median(differences(list, times[steps[i-1]])))
		}
		fmt.Println()
	}
}

func differences(a, b []float64) (out []float64) {
	for i := range a {
		out = append(out, a[i]-b[i])
	}
	return out
}
