package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// CA is a test's own certificate authority, with a certificate for a server at 127.0.0.1.
type CA struct {
	pool *x509.CertPool
	args []string // server settings for the certificate
}

// NewCA creates the authority and the server's certificate. Their files are removed with the test. NewCA skips the test if the
// server was built without TLS, as it is by default.
func NewCA(tb testing.TB) *CA {
	tb.Helper()
	NeedsRealServer(tb, "TLS")
	refused, _ := exec.Command(program(), "--tls-port", "no number").CombinedOutput()
	if strings.Contains(string(refused), "Bad directive") && !requireRedis() {
		tb.Skip(program(), "was built without TLS")
	}
	dir := tb.TempDir()
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "redistest"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	key := newKey(tb)
	root := sign(tb, authority, authority, key, key)
	server := &x509.Certificate{
		SerialNumber: big.NewInt(2), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		// Cluster nodes are also clients of each other.
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		KeyUsage:    x509.KeyUsageDigitalSignature, NotBefore: authority.NotBefore, NotAfter: authority.NotAfter,
	}
	serverKey := newKey(tb)
	private, err := x509.MarshalPKCS8PrivateKey(serverKey)
	must(tb, err)
	ca := &CA{pool: x509.NewCertPool(), args: []string{"--tls-auth-clients", "no"}}
	for option, block := range map[string]*pem.Block{
		"ca-cert-file": {Type: "CERTIFICATE", Bytes: root},
		"cert-file":    {Type: "CERTIFICATE", Bytes: sign(tb, server, authority, serverKey, key)},
		"key-file":     {Type: "PRIVATE KEY", Bytes: private},
	} {
		file := filepath.Join(dir, option)
		must(tb, os.WriteFile(file, pem.EncodeToMemory(block), 0o600))
		ca.args = append(ca.args, "--tls-"+option, file)
	}
	trusted, err := x509.ParseCertificate(root)
	must(tb, err)
	ca.pool.AddCert(trusted)
	return ca
}

func newKey(tb testing.TB) *ecdsa.PrivateKey {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(tb, err)
	return key
}

func sign(tb testing.TB, cert, parent *x509.Certificate, key, by *ecdsa.PrivateKey) []byte {
	tb.Helper()
	signed, err := x509.CreateCertificate(rand.Reader, cert, parent, &key.PublicKey, by)
	must(tb, err)
	return signed
}

// Config returns a client configuration that trusts only this authority.
func (ca *CA) Config() *tls.Config {
	return &tls.Config{RootCAs: ca.pool, MinVersion: tls.VersionTLS12}
}

// Start is [Start] for a server with an additional port for TLS. The test itself uses the plain port.
func (ca *CA) Start(tb testing.TB, args ...string) *Server {
	tb.Helper()
	port := freePort(tb)
	s := Start(tb, append(append(args, "--tls-port", strconv.Itoa(port)), ca.args...)...)
	s.TLSAddr = fmt.Sprintf("127.0.0.1:%d", port)
	return s
}

// StartCluster is [StartCluster] for nodes that use TLS among themselves and offer it to clients, see [CA.Start].
func (ca *CA) StartCluster(tb testing.TB) *Cluster {
	tb.Helper()
	return startCluster(tb, func(args ...string) *Server {
		return ca.Start(tb, append(args, "--tls-cluster", "yes", "--tls-replication", "yes")...)
	})
}
