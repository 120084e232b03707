package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/rpc"
	"time"

	"go.etcd.io/bbolt"

	"github.com/rdmaloop/rdmaloop/examples/kvread/server"
)

const (
	demoBucket = "demo"
	valueSize  = 100
	// stopTime is the time in which connections must close at the end. Arbitrary.
	stopTime = 15 * time.Second
)

// serve serves a store until the program is stopped.
func serve(opts *options, stdout io.Writer) (err error) {
	ctx, cancel := stopContext(opts.untilEOF)
	defer cancel()
	store, err := server.Open(opts.file, bbolt.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.DB.Close()) }()
	if err = fill(store.DB, opts); err != nil {
		return err
	}
	p, err := open(opts, opts.listen.Addr())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	s, err := server.New(p, store, 0)
	if err != nil {
		return err
	}
	addr, err := s.Listen(opts.listen)
	if err == nil && opts.rpc != "" {
		var l net.Listener
		if l, err = serveRPC(store.DB, opts.rpc); err == nil {
			defer l.Close()
			fmt.Fprintf(stdout, "rpc at %v\n", l.Addr())
		}
	}
	if err == nil {
		fmt.Fprintf(stdout, "listening at %v\n", addr)
		<-ctx.Done()
	}
	stopCtx, cancelStop := context.WithTimeout(context.Background(), stopTime)
	defer cancelStop()
	err = errors.Join(err, s.Close(stopCtx))
	if refused := store.Refused(); refused != nil {
		fmt.Fprintf(stdout, "the file was mapped for writing, because: %v\n", refused)
	}
	return err
}

// demoKey and demoValue append a key of the demonstration and its value.
func demoKey(b []byte, i int) []byte { return fmt.Appendf(b, "key-%08d", i) }

func demoValue(b []byte, i int) []byte { return fmt.Appendf(b, "%0*d", valueSize, i) }

// fill puts the keys of the demonstration into the bucket.
func fill(db *bbolt.DB, opts *options) error {
	const perTransaction = 10000 // arbitrary
	for first := 0; first < opts.fill; first += perTransaction {
		err := db.Update(func(tx *bbolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists([]byte(opts.bucket))
			if err != nil {
				return err
			}
			for i := first; i < min(first+perTransaction, opts.fill); i++ {
				if err := b.Put(demoKey(nil, i), demoValue(nil, i)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// An RPC is the service of net/rpc with which the READs are compared.
type RPC struct{ db *bbolt.DB }

// A GetArgs has the arguments of RPC.Get.
type GetArgs struct{ Bucket, Key []byte }

var errNotFound = errors.New("not found")

// Get returns the value of a key, in a transaction of its own.
func (r *RPC) Get(args *GetArgs, value *[]byte) error {
	return r.db.View(func(tx *bbolt.Tx) error {
		b := tx.Bucket(args.Bucket)
		if b == nil {
			return errNotFound
		}
		found := b.Get(args.Key)
		if found == nil {
			return errNotFound
		}
		*value = append((*value)[:0], found...)
		return nil
	})
}

// serveRPC serves the store by net/rpc over TCP until the listener is closed.
func serveRPC(db *bbolt.DB, addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	s := rpc.NewServer()
	if err = s.Register(&RPC{db}); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go s.ServeConn(c)
		}
	}()
	return l, nil
}
