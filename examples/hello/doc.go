// Package hello is the smallest example: five lines of YAML. See README.md.
package hello
