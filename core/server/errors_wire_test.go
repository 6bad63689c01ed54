package server_test

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var writeErrors = flag.Bool("write-errors", false, "write core/ERRORS.md anew")

const (
	errorsGolden = "testdata/errors_kafka_4.4.0.txt"
	errorsTable  = "../ERRORS.md"
)

// otherCodes lists the questions whose answers may differ from Kafka's, with the reason.
var otherCodes = map[string]string{
	"Produce: no batch":      "Kafka never answers",
	"Produce: null":          "Kafka never answers",
	"Produce: unknown codec": "Kafka takes it for a fault of its own",
	"IncrementalAlterConfigs: unknown topic, no.such=1":          unknownTopicFirst,
	"IncrementalAlterConfigs: unknown topic, retention.ms=abc":   unknownTopicFirst,
	"IncrementalAlterConfigs: unknown topic, retention.ms=-9":    unknownTopicFirst,
	"AlterConfigs: unknown topic, no.such=1":                     unknownTopicFirst,
	"AlterConfigs: unknown topic, retention.ms=abc":              unknownTopicFirst,
	"AlterConfigs: unknown topic, retention.ms=-9":               unknownTopicFirst,
	"IncrementalAlterConfigs: broker 1, no.such=1":               checkedSetting,
	"IncrementalAlterConfigs: broker 1, log.retention.ms=abc":    checkedSetting,
	"IncrementalAlterConfigs: broker 1, log.retention.ms=-9":     checkedSetting,
	"AlterConfigs: broker 1, no.such=1":                          checkedSetting,
	"AlterConfigs: broker 1, log.retention.ms=abc":               checkedSetting,
	"AlterConfigs: broker 1, log.retention.ms=-9":                checkedSetting,
	"IncrementalAlterConfigs: all brokers, no.such=1":            checkedSetting,
	"IncrementalAlterConfigs: all brokers, log.retention.ms=abc": checkedSetting,
	"IncrementalAlterConfigs: all brokers, log.retention.ms=-9":  checkedSetting,
	"AlterConfigs: all brokers, log.retention.ms=abc":            checkedSetting,
	"AlterConfigs: all brokers, log.retention.ms=1000":           "a setting that may be changed",
	"IncrementalAlterConfigs: operation 4 of a list":             "a fault of the client",
	"IncrementalAlterConfigs: operation 4 of a number":           "a fault of the client",
}

const (
	unknownTopicFirst = "there is no such topic, whatever the setting"
	checkedSetting    = "settings of brokers are checked as those of topics are"
)

// TestErrorsAreKafkas sends the same requests, most of them wrong, to this broker that an Apache
// Kafka 4.4.0 got, and compares every error code of the answers: clients act on them. Both sides
// are in core/ERRORS.md, which is compared too. Record Kafka's side again, on one node with
// group.initial.rebalance.delay.ms=0, and write the table:
//
//	go test ./core/server -run ErrorsAreKafkas -record-from 127.0.0.1:19092
//	go test ./core/server -run ErrorsAreKafkas -write-errors
func TestErrorsAreKafkas(t *testing.T) {
	got := runErrorCases(t, newAnswerer(t, map[string]string{
		"group.initial.rebalance.delay.ms": "0",
	}))
	if *recordFrom != "" {
		var b strings.Builder
		for _, row := range got {
			fmt.Fprintf(&b, "%s\t%s\n", row.label, row.codes)
		}
		require.NoError(t, os.WriteFile(errorsGolden, []byte(b.String()), 0o644))
		return
	}
	want := readErrors(t)
	require.Len(t, got, len(want), "questions; record them anew")
	for _, row := range got {
		api, request, _ := strings.Cut(row.label, ": ")
		api, _, _ = strings.Cut(api, " ")
		if otherCodes[api+": "+request] == "" {
			assert.Equal(t, want[row.label], row.codes, row.label)
		}
	}
	table := errorTable(got, want)
	if *writeErrors {
		require.NoError(t, os.WriteFile(errorsTable, []byte(table), 0o644))
	}
	is, err := os.ReadFile(errorsTable)
	require.NoError(t, err)
	require.Equal(t, string(is), table, "write it anew with -write-errors")
}

// readErrors returns Kafka's codes by label.
func readErrors(t *testing.T) map[string]string {
	golden, err := os.ReadFile(errorsGolden)
	require.NoError(t, err)
	want := map[string]string{}
	for line := range strings.Lines(string(golden)) {
		label, codes, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		want[label] = codes
	}
	return want
}

// errorRow is the codes of one answer.
type errorRow struct{ label, codes string }

// errorTable is the text of ERRORS.md: a line for all versions of a request that are answered alike
// by both.
func errorTable(got []errorRow, kafka map[string]string) string {
	var b strings.Builder
	b.WriteString("# Error codes, side by side\n\nThe same requests to Apache Kafka 4.4.0 and to " +
		"Millstream, and every error code in the answers.\nWritten by `TestErrorsAreKafkas` in " +
		"`core/server`, which tells how to do it again.\n\n" +
		"| request | versions | Apache Kafka 4.4.0 | Millstream |\n|---|---|---|---|\n")
	type line struct{ api, request, kafka, ours string }
	versions := map[line][]string{}
	var lines []line
	for _, row := range got {
		api, request, _ := strings.Cut(row.label, ": ")
		api, version, _ := strings.Cut(api, " ")
		l := line{api, request, kafka[row.label], "same"}
		if row.codes != l.kafka {
			l.ours = row.codes + ": " + otherCodes[api+": "+request]
		}
		if versions[l] == nil {
			lines = append(lines, l)
		}
		versions[l] = append(versions[l], version)
	}
	for _, l := range lines {
		fmt.Fprintf(&b, "| %s: %s | %s | %s | %s |\n", l.api, l.request,
			strings.Join(versions[l], " "), l.kafka, l.ours)
	}
	return b.String()
}

// errorWire asks one broker.
type errorWire struct {
	t      *testing.T
	broker answerer
	conn   net.Conn
	id     int32
	ids    map[string][16]byte // of topics
	rows   []errorRow
	// run makes names new for a broker that was asked before.
	run string
}

func runErrorCases(t *testing.T, broker answerer) []errorRow {
	e := &errorWire{t: t, broker: broker, ids: map[string][16]byte{},
		run: fmt.Sprintf("e%x-", time.Now().UnixNano())}
	e.coordinatorsReady()
	e.produceErrors()
	e.fetchErrors()
	e.offsetErrors()
	e.topicErrors()
	e.configErrors()
	e.clusterErrors()
	e.classicGroupErrors()
	e.commitErrors()
	e.consumerGroupErrors()
	e.transactionErrors()
	e.transactionVersion2Errors()
	e.frameErrors()
	if e.conn != nil {
		_ = e.conn.Close()
	}
	return e.rows
}

// send asks in a version and notes the codes.
func (e *errorWire) send(label string, version int16, req kmsg.Request) kmsg.Response {
	e.t.Helper()
	resp, err := e.ask(version, req)
	var codes string
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed):
		codes = "connection closed"
	case errors.Is(err, os.ErrDeadlineExceeded):
		codes = "no answer"
	case err != nil:
		codes = "connection closed"
	default:
		codes = strings.Join(errorCodes(reflect.ValueOf(resp)), ", ")
	}
	name := kmsg.NameForKey(req.Key())
	e.note(fmt.Sprintf("%s v%d: %s", name, version, label), codes)
	return resp
}

// note adds a row. Its label must be the only one of its kind.
func (e *errorWire) note(label, codes string) {
	e.t.Helper()
	same := func(r errorRow) bool { return r.label == label }
	require.False(e.t, slices.ContainsFunc(e.rows, same), "%s is asked twice", label)
	e.rows = append(e.rows, errorRow{label, codes})
}

// ask asks in a version; after an error the connection is a new one.
func (e *errorWire) ask(version int16, req kmsg.Request) (kmsg.Response, error) {
	e.t.Helper()
	req.SetVersion(version)
	e.connect()
	e.id++
	frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID("wire")).AppendRequest(nil, req, e.id)
	answer, err := e.exchange(frame)
	resp := req.ResponseKind()
	resp.SetVersion(version)
	if err == nil {
		answer = answer[4:]
		if resp.IsFlexible() && resp.Key() != 18 {
			answer = answer[1:]
		}
		require.NoError(e.t, resp.ReadFrom(answer), "%T v%d", req, version)
	}
	return resp, err
}

func (e *errorWire) connect() {
	if e.conn != nil {
		return
	}
	e.conn = e.broker.connect(e.t)
}

// exchange writes a frame and reads the answer to it, without its length.
func (e *errorWire) exchange(frame []byte) (answer []byte, err error) {
	defer func() {
		if err != nil {
			_ = e.conn.Close()
			e.conn = nil
		}
	}()
	if _, err := e.conn.Write(frame); err != nil {
		return nil, err
	}
	_ = e.conn.SetReadDeadline(time.Now().Add(4 * time.Second))
	var size [4]byte
	if _, err := io.ReadFull(e.conn, size[:]); err != nil {
		return nil, err
	}
	answer = make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err = io.ReadFull(e.conn, answer)
	return answer, err
}

// errorCodes returns the names of all codes in an answer, those of each array sorted.
func errorCodes(v reflect.Value) []string {
	var codes []string
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			codes = errorCodes(v.Elem())
		}
	case reflect.Slice:
		var elements []string
		for i := range v.Len() {
			if in := errorCodes(v.Index(i)); len(in) > 0 {
				elements = append(elements, strings.Join(in, " "))
			}
		}
		slices.Sort(elements) // Kafka's arrays are in hash order
		codes = append(codes, elements...)
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			switch {
			case f.Name == "ErrorCode":
				codes = append(codes, codeName(int16(v.Field(i).Int())))
			case f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.Struct,
				f.Type.Kind() == reflect.Struct && f.Name != "UnknownTags":
				codes = append(codes, errorCodes(v.Field(i))...)
			}
		}
	}
	return codes
}

func codeName(code int16) string {
	if code == 0 {
		return "NONE"
	}
	if err, ok := errors.AsType[*kerr.Error](kerr.ErrorForCode(code)); ok && err.Code == code {
		return fmt.Sprintf("%s %d", err.Message, code)
	}
	return fmt.Sprint(code)
}

// name is a name of this run.
func (e *errorWire) name(s string) string { return e.run + s }

// topic makes a topic and returns when it is served.
func (e *errorWire) topic(name string, partitions int32, configs ...string) string {
	e.t.Helper()
	name = e.name(name)
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 5000
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = name, partitions, 1
	for i := 0; i < len(configs); i += 2 {
		rc := kmsg.NewCreateTopicsRequestTopicConfig()
		rc.Name, rc.Value = configs[i], &configs[i+1]
		rt.Configs = append(rt.Configs, rc)
	}
	req.Topics = append(req.Topics, rt)
	resp, err := e.ask(7, req)
	require.NoError(e.t, err)
	created := resp.(*kmsg.CreateTopicsResponse).Topics[0]
	require.Zero(e.t, created.ErrorCode, "create %s", name)
	e.ids[name] = created.TopicID
	e.until(func() bool {
		for p := range partitions {
			resp, err := e.ask(7, listRequest(name, p, -1, -1))
			if err != nil || resp.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0].ErrorCode != 0 {
				return false
			}
		}
		return true
	})
	return name
}

// until waits for what the broker does by itself.
func (e *errorWire) until(done func() bool) {
	e.t.Helper()
	require.Eventually(e.t, done, time.Minute, 20*time.Millisecond)
}

// coordinatorsReady has the internal topics made and loaded.
func (e *errorWire) coordinatorsReady() {
	for kind, key := range []string{"g", "t"} {
		e.until(func() bool {
			req := kmsg.NewPtrFindCoordinatorRequest()
			req.CoordinatorKey, req.CoordinatorType = key, int8(kind)
			resp, err := e.ask(2, req)
			return err == nil && resp.(*kmsg.FindCoordinatorResponse).ErrorCode == 0
		})
	}
	e.until(func() bool {
		req := kmsg.NewPtrListGroupsRequest()
		resp, err := e.ask(3, req)
		return err == nil && resp.(*kmsg.ListGroupsResponse).ErrorCode == 0
	})
	e.until(func() bool {
		resp, err := e.ask(1, kmsg.NewPtrListTransactionsRequest())
		return err != nil || resp.(*kmsg.ListTransactionsResponse).ErrorCode == 0
	})
}
