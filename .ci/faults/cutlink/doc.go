// Command cutlink runs a broker and cuts the link to some of its clients, so that neither side gets a FIN or RST: the
// peer is gone without a word, as after a power cut, a pulled cable or a firewall that forgot a connection.
// .ci/faults/halfopen makes the network and runs it.
//
//	cutlink -binary MILLSTREAM -dir DIR -namespace NAME [-keepalive | -server]
//
// It is in one network namespace, with the broker and with clients that stay: a producer and a consumer whose records
// are timed, and a member of a group of each protocol. NAME is the namespace at the other end of the interface "cut".
// There, in a process of its own (-beyond), are 200 idle connections, 10 readers in the middle of an answer, another
// member of each group, a producer that is idempotent and one with an open transaction. Then their end of the link
// goes down. It proves that the fault bit: as many connections as before are still ESTABLISHED at both ends, with
// bytes in flight that nobody acknowledges.
//
// It fails unless all of them are let go (idle ones by connections.max.idle.ms, readers by the 30 s within which the
// next part of an answer has to be taken), the partitions of dead members go to the living one after the session
// timeout, the transaction is aborted after its own, neither earlier, and descriptors, goroutines and memory are as
// before; unless all that time the clients that stay are served in time and without an error; and, when the link is
// back, unless the idempotent producer goes on with every record once and the open transaction cannot be committed.
//
// With -keepalive connections.max.idle.ms is off: idle connections are found dead by TCP's keepalive (after 15 s, nine
// probes 15 s apart), those with bytes in flight by the kernel's retries, of which the namespace has few.
//
// With -server it is the other way round: the host of the broker is gone, and our own programs are left. Beyond the link
// are a worker with two pipelines, one that counts behind a repartition topic and one from a file to a topic and a file,
// `produce`, whose input goes on, and `consume -F` of the results. What is sent over the link goes to an address that
// nobody has, so that nothing answers, no ICMP and no ARP either: once for longer than transactions and sessions last,
// once until the broker was killed and started anew. Each program has to give up its connections when the longest
// request is over (20 s) and to say so, a command that begins meanwhile within 5 s; when the host is there again, results
// have to come after one try to connect (10 s) and one pause (5 s); and in the end everything is there, each once.
package main
