// Package ndjson writes records as one JSON object a line and reads them back without losing a
// byte.
//
// A line looks like this (the order of the fields is fixed):
//
//	{"topic":"t","partition":0,"offset":7,"ts":1767225600000,"tsType":"create",
//	 "key":"SAN","keyEnc":"utf8","value":{"id":1},"valueEnc":"json","headers":[["k","v","utf8"]]}
//
// Encodings of key and value:
//
//	json    an object or array that is valid JSON, embedded exactly as its bytes are
//	utf8    text, as a JSON string
//	base64  anything else
//	null    no key or value (JSON null), which differs from the empty string
//
// # Invariants
//
// Decode(Append(r)) equals r in key, value, headers and timestamp, byte for byte.
package ndjson
