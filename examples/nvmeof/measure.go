package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/rdmaloop/rdmaloop/examples/nvmeof/initiator"
	"github.com/rdmaloop/rdmaloop/examples/nvmeof/nvme"
	"github.com/rdmaloop/rdmaloop/reactor"
)

const (
	maxDepth  = 32
	blockSize = 4096
)

// A workload is one line of the demonstration's table.
type workload struct {
	opcode uint8
	size   int // number of bytes of one operation
	depth  int // number of operations in flight
}

// measureAll checks that the disk keeps data, and prints a line for each workload.
func measureAll(ctx context.Context, c *initiator.Controller, path string, opts *options, stdout io.Writer) (err error) {
	memory, err := c.Host.Alloc(maxDepth * 256 << 10)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, memory.Close()) }()
	if err = verify(ctx, c, memory); err != nil {
		return err
	}
	for _, w := range []workload{
		{nvme.IOWrite, 4 << 10, 1}, {nvme.IORead, 4 << 10, 1},
		{nvme.IOWrite, 4 << 10, 32}, {nvme.IORead, 4 << 10, 32},
		{nvme.IOWrite, 256 << 10, 8}, {nvme.IORead, 256 << 10, 8},
	} {
		m := &measurement{
			workload: w, limit: opts.duration, queue: c.IO[0], memory: memory,
			random: rand.New(rand.NewPCG(1, 2)), ended: make(chan error, 1),
		}
		if err = m.run(ctx); err != nil {
			return err
		}
		m.print(stdout, path)
	}
	return nil
}

// verify writes all blocks of the disk, each with its own number and random bytes, and
// reads them back.
func verify(ctx context.Context, c *initiator.Controller, memory *reactor.Region) error {
	const part = 256 << 10
	random := rand.NewChaCha8([32]byte{1})
	pattern := make([]byte, part)
	for round := range 2 {
		random.Read(pattern)
		for at := int64(0); at < demoSize; at += part {
			binary.LittleEndian.PutUint64(pattern, uint64(at)+uint64(round))
			copy(memory.Bytes(), pattern)
			if err := transfer(ctx, c, nvme.IOWrite, at, reactor.Piece{Region: memory, Length: part}); err != nil {
				return err
			}
		}
		for at := int64(0); at < demoSize; at += part {
			binary.LittleEndian.PutUint64(pattern, uint64(at)+uint64(round))
			if err := transfer(ctx, c, nvme.IORead, at, reactor.Piece{Region: memory, Offset: part, Length: part}); err != nil {
				return err
			}
			if !bytes.Equal(memory.Bytes()[part:2*part], pattern) {
				return fmt.Errorf("the disk has wrong data at offset %d", at)
			}
		}
	}
	return nil
}

func transfer(ctx context.Context, c *initiator.Controller, opcode uint8, at int64, data reactor.Piece) error {
	_, err := c.IO[0].Do(ctx, initiator.Transfer(opcode, 1, uint64(at/blockSize), data.Length/blockSize, data))
	return err
}

// A measurement runs a workload. Its methods belong to the loop of the queue, except run
// and print.
type measurement struct {
	workload
	limit    time.Duration // time after which no operation begins
	queue    *initiator.Queue
	memory   *reactor.Region
	random   *rand.Rand
	began    time.Time
	inFlight int
	times    []time.Duration // duration of each operation
	took     time.Duration
	failure  error
	ended    chan error
}

// run runs the workload, and waits for its end.
func (m *measurement) run(ctx context.Context) error {
	err := m.queue.Post(func() {
		m.began = time.Now()
		for i := range m.depth {
			m.start(i)
		}
	})
	if err != nil {
		return err
	}
	select {
	case err = <-m.ended:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// start starts an operation at a random place. The parameter slot says which part of the
// memory it uses.
func (m *measurement) start(slot int) {
	at := m.random.Int64N(int64(demoSize / m.size))
	data := reactor.Piece{Region: m.memory, Offset: slot * m.size, Length: m.size}
	r := initiator.Transfer(m.opcode, 1, uint64(at)*uint64(m.size/blockSize), m.size/blockSize, data)
	began := time.Now()
	r.Done = func(resp *nvme.Response, err error) {
		m.inFlight--
		if err == nil && resp.Status != nvme.Success {
			err = resp.Status
		}
		m.failure = errors.Join(m.failure, err)
		m.times = append(m.times, time.Since(began))
		switch m.took = time.Since(m.began); {
		case m.failure == nil && m.took < m.limit:
			m.start(slot)
		case m.inFlight == 0:
			m.ended <- m.failure
		}
	}
	m.inFlight++
	m.queue.Submit(r)
}

// print prints the line of the workload.
func (m *measurement) print(stdout io.Writer, path string) {
	name := map[uint8]string{nvme.IORead: "read", nvme.IOWrite: "write"}[m.opcode]
	slices.Sort(m.times)
	rate := float64(len(m.times)) / m.took.Seconds()
	fmt.Fprintf(stdout, "%-6s %-10s %5dK %6d %9.0f %8.0f %9v %9v\n", path, name, m.size>>10, m.depth, rate,
		rate*float64(m.size)/1e6, m.percentile(0.5), m.percentile(0.99))
}

// percentile returns the time that a part p of the operations did not exceed.
func (m *measurement) percentile(p float64) time.Duration {
	return m.times[int(p*float64(len(m.times)-1))].Round(100 * time.Nanosecond)
}
