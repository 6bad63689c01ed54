// Package windows is an example of windows, a join of two streams and tables. See README.md.
package windows
