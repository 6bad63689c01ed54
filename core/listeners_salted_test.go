package core_test

import (
	"crypto/pbkdf2"
	"crypto/sha256"
	"crypto/sha512"
)

// salted256 and salted512 make what a client sends for a password (RFC 5802).
func salted256(password string) func(salt []byte) []byte {
	return func(salt []byte) []byte {
		key, _ := pbkdf2.Key(sha256.New, password, salt, 4096, 32)
		return key
	}
}

func salted512(password string) func(salt []byte) []byte {
	return func(salt []byte) []byte {
		key, _ := pbkdf2.Key(sha512.New, password, salt, 4096, 64)
		return key
	}
}
