package stream_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"time"
)

// TLS on a stream: tls.NewListener and tls.Client take a net.Listener and a net.Conn.
func Example_tls() {
	network, closeNetwork := open()
	defer closeNetwork()
	certificate, roots := newCertificate("server.test")

	plain, err := network.Listen("tcp", "127.0.0.1:0") // net.Listen
	check(err)
	ln := tls.NewListener(plain, &tls.Config{Certificates: []tls.Certificate{certificate}})
	defer ln.Close()
	go func() {
		c, err := ln.Accept()
		check(err)
		_, err = io.Copy(c, c)
		check(err)
		check(c.Close())
	}()

	conn, err := network.Dial("tcp", ln.Addr().String()) // net.Dial
	check(err)
	client := tls.Client(conn, &tls.Config{ServerName: "server.test", RootCAs: roots})
	_, err = fmt.Fprint(client, "a secret")
	check(err)
	check(client.CloseWrite())
	answer, err := io.ReadAll(client)
	check(err)
	check(client.Close())
	fmt.Printf("%s, %s\n", answer, tls.VersionName(client.ConnectionState().Version))
	// Output: a secret, TLS 1.3
}

// newCertificate returns a certificate for a host name, and a pool that has it.
func newCertificate(host string) (tls.Certificate, *x509.CertPool) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{host},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	check(err)
	leaf, err := x509.ParseCertificate(der)
	check(err)
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}
