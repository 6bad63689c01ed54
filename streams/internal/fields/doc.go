// Package fields reads byte layouts of the streams layer (rows, commit records, headers) from the
// front of a slice, field by field.
//
// # Invariants
//
// After the first field that is not there, every read gives a zero value and Whole stays false, so
// that a decoder checks once, at its end. No length is believed that passes the bytes left.
package fields
