// Makes an authority, and client certificates that it signs: `frontproxy NAME...` writes front-proxy-ca.pem, and
// NAME.pem and NAME-key.pem of each name, into the current folder. For the control planes of tests only.
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log"
	"math/big"
	"os"
	"time"
)

func main() {
	authority := template(1, "front-proxy-ca")
	authority.IsCA, authority.BasicConstraintsValid = true, true
	authority.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	signer := newKey()
	write("front-proxy-ca.pem", "CERTIFICATE", sign(authority, authority, signer, signer))
	for number, name := range os.Args[1:] {
		client, key := template(int64(number)+2, name), newKey()
		client.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		write(name+".pem", "CERTIFICATE", sign(client, authority, key, signer))
		secret, err := x509.MarshalPKCS8PrivateKey(key)
		check(err)
		write(name+"-key.pem", "PRIVATE KEY", secret)
	}
}

func template(serial int64, name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().AddDate(1, 0, 0),
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}
}

func newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(err)
	return key
}

func sign(what, by *x509.Certificate, key, signer *ecdsa.PrivateKey) []byte {
	made, err := x509.CreateCertificate(rand.Reader, what, by, &key.PublicKey, signer)
	check(err)
	return made
}

func write(name, kind string, content []byte) {
	check(os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), 0o600))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
