/* See filter.h. */
#include "filter.h"
#include <ctype.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

/* The driver accepts one test less than the library. */
#define TESTS_MAX 255

/* Brackets in brackets. */
#define DEPTH_MAX 64

enum field {
	FIELD_TRUE,
	FIELD_FALSE,
	FIELD_INBOUND,
	FIELD_OUTBOUND,
	FIELD_LOOPBACK,
	FIELD_IMPOSTOR,
	FIELD_IFIDX,
	FIELD_IP,
	FIELD_IPV6,
	FIELD_TCP,
	FIELD_UDP,
	FIELD_ICMP,
	FIELD_ICMPV6,
	FIELD_TCP_SOURCE,
	FIELD_TCP_DESTINATION,
	FIELD_UDP_SOURCE,
	FIELD_UDP_DESTINATION,
	FIELD_ICMP_TYPE,
	FIELD_ICMPV6_TYPE,
	FIELDS
};

static const char *const names[FIELDS] = {
	[FIELD_TRUE] = "true",
	[FIELD_FALSE] = "false",
	[FIELD_INBOUND] = "inbound",
	[FIELD_OUTBOUND] = "outbound",
	[FIELD_LOOPBACK] = "loopback",
	[FIELD_IMPOSTOR] = "impostor",
	[FIELD_IFIDX] = "ifIdx",
	[FIELD_IP] = "ip",
	[FIELD_IPV6] = "ipv6",
	[FIELD_TCP] = "tcp",
	[FIELD_UDP] = "udp",
	[FIELD_ICMP] = "icmp",
	[FIELD_ICMPV6] = "icmpv6",
	[FIELD_TCP_SOURCE] = "tcp.SrcPort",
	[FIELD_TCP_DESTINATION] = "tcp.DstPort",
	[FIELD_UDP_SOURCE] = "udp.SrcPort",
	[FIELD_UDP_DESTINATION] = "udp.DstPort",
	[FIELD_ICMP_TYPE] = "icmp.Type",
	[FIELD_ICMPV6_TYPE] = "icmpv6.Type",
};

enum comparison { EQUAL, UNEQUAL, LESS, AT_LEAST, GREATER, AT_MOST };

static const char *const comparisons[] = {
	[EQUAL] = "==", [UNEQUAL] = "!=", [LESS] = "<", [AT_LEAST] = ">=", [GREATER] = ">", [AT_MOST] = "<=",
};

enum kind { TEST, AND, OR, CONDITION };

struct filter {
	enum kind kind;
	enum field field;
	enum comparison comparison;
	uint32_t value;
	struct filter *parts[3];
};

struct parser {
	const char *text;
	unsigned int at;
	int tests, depth;
	const char *reason; /* the first error */
	unsigned int position;
};

static struct filter *parse_either(struct parser *parser);

static struct filter *fail(struct parser *parser, const char *reason)
{
	if (!parser->reason) {
		parser->reason = reason;
		parser->position = parser->at;
	}
	return NULL;
}

void filter_free(struct filter *filter)
{
	if (!filter)
		return;
	for (int i = 0; i < 3; i++)
		filter_free(filter->parts[i]);
	free(filter);
}

static struct filter *combine(struct parser *parser, enum kind kind, struct filter *a, struct filter *b, struct filter *c)
{
	struct filter *filter = calloc(1, sizeof(*filter));

	if (filter && a && b && (c || kind != CONDITION)) {
		*filter = (struct filter){ .kind = kind, .parts = { a, b, c } };
		return filter;
	}
	free(filter);
	filter_free(a);
	filter_free(b);
	filter_free(c);
	return fail(parser, "out of memory");
}

static void skip_spaces(struct parser *parser)
{
	while (isspace((unsigned char)parser->text[parser->at]))
		parser->at++;
}

static int is_of_word(char c)
{
	return isalnum((unsigned char)c) || c == '.' || c == '_';
}

/* Goes behind a sign or a word, if it comes next. */
static int take(struct parser *parser, const char *what)
{
	size_t length = strlen(what);

	skip_spaces(parser);
	if (strncmp(parser->text + parser->at, what, length))
		return 0;
	if (is_of_word(what[0]) && is_of_word(parser->text[parser->at + length]))
		return 0;
	parser->at += length;
	return 1;
}

static int parse_number(struct parser *parser, uint32_t *value)
{
	const char *begin = parser->text + parser->at;
	unsigned long long number;
	char *end;

	if (!isdigit((unsigned char)*begin))
		return 0;
	number = strtoull(begin, &end, begin[0] == '0' && begin[1] == 'x' ? 16 : 10);
	if (is_of_word(*end) || number > UINT32_MAX)
		return 0;
	*value = number;
	parser->at += end - begin;
	return 1;
}

static int parse_comparison(struct parser *parser, enum comparison *comparison)
{
	/* The longer signs first. */
	static const enum comparison order[] = { EQUAL, UNEQUAL, AT_LEAST, AT_MOST, LESS, GREATER };

	for (int i = 0; i < 6; i++) {
		if (take(parser, comparisons[order[i]])) {
			*comparison = order[i];
			return 1;
		}
	}
	return 0;
}

static struct filter *parse_test(struct parser *parser)
{
	int is_negated = take(parser, "!") || take(parser, "not"), field = 0;
	struct filter *filter;

	while (field < FIELDS && !take(parser, names[field]))
		field++;
	if (field == FIELDS)
		return fail(parser, "unknown field");
	/* The others are known beforehand. */
	if (field != FIELD_TRUE && field != FIELD_FALSE && ++parser->tests > TESTS_MAX)
		return fail(parser, "too many tests");
	filter = calloc(1, sizeof(*filter));
	if (!filter)
		return fail(parser, "out of memory");
	*filter = (struct filter){ .kind = TEST, .field = field, .comparison = UNEQUAL };
	if (parse_comparison(parser, &filter->comparison)) {
		skip_spaces(parser);
		if (!parse_number(parser, &filter->value)) {
			filter_free(filter);
			return fail(parser, "not a number");
		}
	}
	/* Each comparison stands beside its opposite. */
	if (is_negated)
		filter->comparison ^= 1;
	return filter;
}

static struct filter *parse_brackets(struct parser *parser)
{
	struct filter *filter, *then, *otherwise;

	if (++parser->depth > DEPTH_MAX)
		return fail(parser, "too deep");
	filter = parse_either(parser);
	if (filter && take(parser, "?")) {
		then = parse_either(parser);
		if (then && !take(parser, ":"))
			fail(parser, "no colon");
		otherwise = parser->reason ? NULL : parse_either(parser);
		filter = combine(parser, CONDITION, filter, then, otherwise);
	}
	if (filter && !take(parser, ")")) {
		filter_free(filter);
		return fail(parser, "no closing bracket");
	}
	parser->depth--;
	return filter;
}

static struct filter *parse_part(struct parser *parser)
{
	return take(parser, "(") ? parse_brackets(parser) : parse_test(parser);
}

static struct filter *parse_both(struct parser *parser)
{
	struct filter *filter = parse_part(parser);

	while (filter && (take(parser, "and") || take(parser, "&&")))
		filter = combine(parser, AND, filter, parse_part(parser), NULL);
	return filter;
}

static struct filter *parse_either(struct parser *parser)
{
	struct filter *filter = parse_both(parser);

	while (filter && (take(parser, "or") || take(parser, "||")))
		filter = combine(parser, OR, filter, parse_both(parser), NULL);
	return filter;
}

struct filter *filter_compile(const char *text, struct filter_error *error)
{
	struct parser parser = { .text = text };
	struct filter *filter = parse_either(&parser);

	skip_spaces(&parser);
	if (filter && text[parser.at]) {
		filter_free(filter);
		filter = fail(&parser, "unexpected text");
	}
	*error = (struct filter_error){ parser.reason ? parser.reason : "No error", parser.position };
	return filter;
}

/* The value of a field; 0 if the packet does not have it. */
static int value_of(enum field field, const struct packet_view *packet, const struct address *address, uint32_t *value)
{
	int is_tcp = packet->protocol == IPPROTO_TCP && packet->transport && packet->transport_length >= 20;
	int is_udp = packet->protocol == IPPROTO_UDP && packet->transport && packet->transport_length >= 8;
	int is_icmp = packet->transport && packet->transport_length >= 8;
	const uint8_t *ports = packet->transport;

	switch (field) {
	case FIELD_TRUE:
		*value = 1;
		return 1;
	case FIELD_FALSE:
		*value = 0;
		return 1;
	case FIELD_INBOUND:
		*value = !address->outbound;
		return 1;
	case FIELD_OUTBOUND:
		*value = address->outbound;
		return 1;
	case FIELD_LOOPBACK:
		*value = address->loopback;
		return 1;
	case FIELD_IMPOSTOR:
		*value = address->impostor;
		return 1;
	case FIELD_IFIDX:
		*value = address->interface;
		return 1;
	case FIELD_IP:
		*value = packet->version == 4;
		return 1;
	case FIELD_IPV6:
		*value = packet->version == 6;
		return 1;
	case FIELD_TCP:
		*value = is_tcp;
		return 1;
	case FIELD_UDP:
		*value = is_udp;
		return 1;
	case FIELD_ICMP:
		*value = is_icmp && packet->version == 4 && packet->protocol == IPPROTO_ICMP;
		return 1;
	case FIELD_ICMPV6:
		*value = is_icmp && packet->version == 6 && packet->protocol == IPPROTO_ICMPV6;
		return 1;
	case FIELD_TCP_SOURCE:
	case FIELD_UDP_SOURCE:
		if (!(field == FIELD_TCP_SOURCE ? is_tcp : is_udp))
			return 0;
		*value = ports[0] << 8 | ports[1];
		return 1;
	case FIELD_TCP_DESTINATION:
	case FIELD_UDP_DESTINATION:
		if (!(field == FIELD_TCP_DESTINATION ? is_tcp : is_udp))
			return 0;
		*value = ports[2] << 8 | ports[3];
		return 1;
	case FIELD_ICMP_TYPE:
	case FIELD_ICMPV6_TYPE:
		if (!value_of(field == FIELD_ICMP_TYPE ? FIELD_ICMP : FIELD_ICMPV6, packet, address, value) || !*value)
			return 0;
		*value = ports[0];
		return 1;
	default:
		return 0;
	}
}

static int test(const struct filter *test, const struct packet_view *packet, const struct address *address)
{
	uint32_t value;

	if (!value_of(test->field, packet, address, &value))
		return 0;
	switch (test->comparison) {
	case EQUAL:
		return value == test->value;
	case UNEQUAL:
		return value != test->value;
	case LESS:
		return value < test->value;
	case AT_LEAST:
		return value >= test->value;
	case GREATER:
		return value > test->value;
	default:
		return value <= test->value;
	}
}

int filter_takes(const struct filter *filter, const struct packet_view *packet, const struct address *address)
{
	struct filter *const *parts = filter->parts;

	switch (filter->kind) {
	case AND:
		return filter_takes(parts[0], packet, address) && filter_takes(parts[1], packet, address);
	case OR:
		return filter_takes(parts[0], packet, address) || filter_takes(parts[1], packet, address);
	case CONDITION:
		return filter_takes(parts[filter_takes(parts[0], packet, address) ? 1 : 2], packet, address);
	default:
		return test(filter, packet, address);
	}
}
