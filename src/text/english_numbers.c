/* SPDX-License-Identifier: MIT
 *
 * Spoken English numbers to digits (openai/whisper, EnglishNumberNormalizer): a state machine
 * over the words that holds one unfinished number. The number is kept as decimal text, since it
 * may be longer than any integer type; `integer` says whether it still counts as a number (so
 * that "hundred" multiplies) or as a row of digits (so that further digits are appended).
 */
#include "text/normalize.h"

#include "text/unicode.h"

#include <string.h>

enum word_class {
    WORD_OTHER,
    WORD_ZERO,
    WORD_ONES, /* one ... nineteen */
    WORD_ONES_SUFFIXED,
    WORD_TENS,
    WORD_TENS_SUFFIXED,
    WORD_MULTIPLIER, /* value is the power of ten */
    WORD_MULTIPLIER_SUFFIXED,
    WORD_PRECEDING, /* a sign, before its number */
    WORD_FOLLOWING, /* a currency, behind its number */
    WORD_PERCENT,
    WORD_SPECIAL
};

typedef struct number_word {
    const char *text;
    enum word_class kind;
    int value;
    const char *affix;
} number_word;

/* In byte order. "nineth" and the lack of "ninth" are the reference's. */
static const number_word number_words[] = {
    {"and", WORD_SPECIAL, 0, ""},
    {"billion", WORD_MULTIPLIER, 9, ""},
    {"billions", WORD_MULTIPLIER_SUFFIXED, 9, "s"},
    {"billionth", WORD_MULTIPLIER_SUFFIXED, 9, "th"},
    {"cent", WORD_FOLLOWING, 0, "¢"},
    {"cents", WORD_FOLLOWING, 0, "¢"},
    {"decillion", WORD_MULTIPLIER, 33, ""},
    {"decillions", WORD_MULTIPLIER_SUFFIXED, 33, "s"},
    {"decillionth", WORD_MULTIPLIER_SUFFIXED, 33, "th"},
    {"dollar", WORD_FOLLOWING, 0, "$"},
    {"dollars", WORD_FOLLOWING, 0, "$"},
    {"double", WORD_SPECIAL, 0, ""},
    {"eight", WORD_ONES, 8, ""},
    {"eighteen", WORD_ONES, 18, ""},
    {"eighteens", WORD_ONES_SUFFIXED, 18, "s"},
    {"eighteenth", WORD_ONES_SUFFIXED, 18, "th"},
    {"eighth", WORD_ONES_SUFFIXED, 8, "th"},
    {"eighties", WORD_TENS_SUFFIXED, 80, "s"},
    {"eightieth", WORD_TENS_SUFFIXED, 80, "th"},
    {"eights", WORD_ONES_SUFFIXED, 8, "s"},
    {"eighty", WORD_TENS, 80, ""},
    {"eleven", WORD_ONES, 11, ""},
    {"elevens", WORD_ONES_SUFFIXED, 11, "s"},
    {"eleventh", WORD_ONES_SUFFIXED, 11, "th"},
    {"euro", WORD_FOLLOWING, 0, "€"},
    {"euros", WORD_FOLLOWING, 0, "€"},
    {"fifteen", WORD_ONES, 15, ""},
    {"fifteens", WORD_ONES_SUFFIXED, 15, "s"},
    {"fifteenth", WORD_ONES_SUFFIXED, 15, "th"},
    {"fifth", WORD_ONES_SUFFIXED, 5, "th"},
    {"fifties", WORD_TENS_SUFFIXED, 50, "s"},
    {"fiftieth", WORD_TENS_SUFFIXED, 50, "th"},
    {"fifty", WORD_TENS, 50, ""},
    {"first", WORD_ONES_SUFFIXED, 1, "st"},
    {"five", WORD_ONES, 5, ""},
    {"fives", WORD_ONES_SUFFIXED, 5, "s"},
    {"forties", WORD_TENS_SUFFIXED, 40, "s"},
    {"fortieth", WORD_TENS_SUFFIXED, 40, "th"},
    {"forty", WORD_TENS, 40, ""},
    {"four", WORD_ONES, 4, ""},
    {"fours", WORD_ONES_SUFFIXED, 4, "s"},
    {"fourteen", WORD_ONES, 14, ""},
    {"fourteens", WORD_ONES_SUFFIXED, 14, "s"},
    {"fourteenth", WORD_ONES_SUFFIXED, 14, "th"},
    {"fourth", WORD_ONES_SUFFIXED, 4, "th"},
    {"hundred", WORD_MULTIPLIER, 2, ""},
    {"hundreds", WORD_MULTIPLIER_SUFFIXED, 2, "s"},
    {"hundredth", WORD_MULTIPLIER_SUFFIXED, 2, "th"},
    {"million", WORD_MULTIPLIER, 6, ""},
    {"millions", WORD_MULTIPLIER_SUFFIXED, 6, "s"},
    {"millionth", WORD_MULTIPLIER_SUFFIXED, 6, "th"},
    {"minus", WORD_PRECEDING, 0, "-"},
    {"negative", WORD_PRECEDING, 0, "-"},
    {"nine", WORD_ONES, 9, ""},
    {"nines", WORD_ONES_SUFFIXED, 9, "s"},
    {"nineteen", WORD_ONES, 19, ""},
    {"nineteens", WORD_ONES_SUFFIXED, 19, "s"},
    {"nineteenth", WORD_ONES_SUFFIXED, 19, "th"},
    {"nineth", WORD_ONES_SUFFIXED, 9, "th"},
    {"nineties", WORD_TENS_SUFFIXED, 90, "s"},
    {"ninetieth", WORD_TENS_SUFFIXED, 90, "th"},
    {"ninety", WORD_TENS, 90, ""},
    {"nonillion", WORD_MULTIPLIER, 30, ""},
    {"nonillions", WORD_MULTIPLIER_SUFFIXED, 30, "s"},
    {"nonillionth", WORD_MULTIPLIER_SUFFIXED, 30, "th"},
    {"o", WORD_ZERO, 0, ""},
    {"octillion", WORD_MULTIPLIER, 27, ""},
    {"octillions", WORD_MULTIPLIER_SUFFIXED, 27, "s"},
    {"octillionth", WORD_MULTIPLIER_SUFFIXED, 27, "th"},
    {"oh", WORD_ZERO, 0, ""},
    {"one", WORD_ONES, 1, ""},
    {"ones", WORD_ONES_SUFFIXED, 1, "s"},
    {"per", WORD_PERCENT, 0, "%"},
    {"percent", WORD_PERCENT, 0, "%"},
    {"plus", WORD_PRECEDING, 0, "+"},
    {"point", WORD_SPECIAL, 0, ""},
    {"positive", WORD_PRECEDING, 0, "+"},
    {"pound", WORD_FOLLOWING, 0, "£"},
    {"pounds", WORD_FOLLOWING, 0, "£"},
    {"quadrillion", WORD_MULTIPLIER, 15, ""},
    {"quadrillions", WORD_MULTIPLIER_SUFFIXED, 15, "s"},
    {"quadrillionth", WORD_MULTIPLIER_SUFFIXED, 15, "th"},
    {"quintillion", WORD_MULTIPLIER, 18, ""},
    {"quintillions", WORD_MULTIPLIER_SUFFIXED, 18, "s"},
    {"quintillionth", WORD_MULTIPLIER_SUFFIXED, 18, "th"},
    {"second", WORD_ONES_SUFFIXED, 2, "nd"},
    {"septillion", WORD_MULTIPLIER, 24, ""},
    {"septillions", WORD_MULTIPLIER_SUFFIXED, 24, "s"},
    {"septillionth", WORD_MULTIPLIER_SUFFIXED, 24, "th"},
    {"seven", WORD_ONES, 7, ""},
    {"sevens", WORD_ONES_SUFFIXED, 7, "s"},
    {"seventeen", WORD_ONES, 17, ""},
    {"seventeens", WORD_ONES_SUFFIXED, 17, "s"},
    {"seventeenth", WORD_ONES_SUFFIXED, 17, "th"},
    {"seventh", WORD_ONES_SUFFIXED, 7, "th"},
    {"seventies", WORD_TENS_SUFFIXED, 70, "s"},
    {"seventieth", WORD_TENS_SUFFIXED, 70, "th"},
    {"seventy", WORD_TENS, 70, ""},
    {"sextillion", WORD_MULTIPLIER, 21, ""},
    {"sextillions", WORD_MULTIPLIER_SUFFIXED, 21, "s"},
    {"sextillionth", WORD_MULTIPLIER_SUFFIXED, 21, "th"},
    {"six", WORD_ONES, 6, ""},
    {"sixes", WORD_ONES_SUFFIXED, 6, "s"},
    {"sixteen", WORD_ONES, 16, ""},
    {"sixteens", WORD_ONES_SUFFIXED, 16, "s"},
    {"sixteenth", WORD_ONES_SUFFIXED, 16, "th"},
    {"sixth", WORD_ONES_SUFFIXED, 6, "th"},
    {"sixties", WORD_TENS_SUFFIXED, 60, "s"},
    {"sixtieth", WORD_TENS_SUFFIXED, 60, "th"},
    {"sixty", WORD_TENS, 60, ""},
    {"ten", WORD_ONES, 10, ""},
    {"tens", WORD_ONES_SUFFIXED, 10, "s"},
    {"tenth", WORD_ONES_SUFFIXED, 10, "th"},
    {"third", WORD_ONES_SUFFIXED, 3, "rd"},
    {"thirteen", WORD_ONES, 13, ""},
    {"thirteens", WORD_ONES_SUFFIXED, 13, "s"},
    {"thirteenth", WORD_ONES_SUFFIXED, 13, "th"},
    {"thirties", WORD_TENS_SUFFIXED, 30, "s"},
    {"thirtieth", WORD_TENS_SUFFIXED, 30, "th"},
    {"thirty", WORD_TENS, 30, ""},
    {"thousand", WORD_MULTIPLIER, 3, ""},
    {"thousands", WORD_MULTIPLIER_SUFFIXED, 3, "s"},
    {"thousandth", WORD_MULTIPLIER_SUFFIXED, 3, "th"},
    {"three", WORD_ONES, 3, ""},
    {"threes", WORD_ONES_SUFFIXED, 3, "s"},
    {"trillion", WORD_MULTIPLIER, 12, ""},
    {"trillions", WORD_MULTIPLIER_SUFFIXED, 12, "s"},
    {"trillionth", WORD_MULTIPLIER_SUFFIXED, 12, "th"},
    {"triple", WORD_SPECIAL, 0, ""},
    {"twelfth", WORD_ONES_SUFFIXED, 12, "th"},
    {"twelve", WORD_ONES, 12, ""},
    {"twelves", WORD_ONES_SUFFIXED, 12, "s"},
    {"twenties", WORD_TENS_SUFFIXED, 20, "s"},
    {"twentieth", WORD_TENS_SUFFIXED, 20, "th"},
    {"twenty", WORD_TENS, 20, ""},
    {"two", WORD_ONES, 2, ""},
    {"twos", WORD_ONES_SUFFIXED, 2, "s"},
    {"zero", WORD_ZERO, 0, ""},
    {"zeroth", WORD_ONES_SUFFIXED, 0, "th"},
};

static int compare(const char *word, size_t length, const char *text) {
    size_t size = strlen(text);
    int order = memcmp(word, text, length < size ? length : size);
    return order ? order : (length > size) - (length < size);
}

static const number_word *find_number_word(const char *word, size_t length) {
    static const number_word other = {"", WORD_OTHER, 0, ""};
    size_t low = 0, high = sizeof number_words / sizeof number_words[0];
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = compare(word, length, number_words[middle].text);
        if (order == 0) return &number_words[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return &other;
}

typedef struct token {
    const char *text; /* NULL before the first word and behind the last */
    size_t length;
    const number_word *word;
    bool numeric; /* digits with at most one period between digits */
} token;

typedef struct numbers {
    vo_buf *out;
    vo_buf value; /* meaningful while has_value */
    bool has_value, integer;
    const char *prefix; /* goes before the next output */
    size_t prefix_length;
    token prev, current, next;
    bool skip; /* `next` was used up together with `current` */
} numbers;

static bool is_numeric(const char *s, size_t size) {
    bool period = false, digit = false;
    for (size_t i = 0; i < size;) {
        uint32_t cp = vo_read_char(s, size, &i);
        if (cp == '.' && digit && !period) {
            period = true;
            digit = false;
        } else if (vo_is_digit(cp)) {
            digit = true;
        } else {
            return false;
        }
    }
    return digit;
}

static void emit(numbers *n, const char *text, size_t length, const char *suffix) {
    if (n->out->size) vo_buf_append(n->out, " ", 1);
    if (n->prefix) vo_buf_append(n->out, n->prefix, n->prefix_length);
    vo_buf_append(n->out, text, length);
    vo_buf_puts(n->out, suffix);
    n->has_value = false;
    n->prefix = NULL;
}

static void emit_current(numbers *n) {
    emit(n, n->current.text, n->current.length, "");
}

static void emit_value(numbers *n, const char *suffix) {
    if (n->has_value) emit(n, n->value.data ? n->value.data : "", n->value.size, suffix);
}

static void set_text(numbers *n, const char *text, size_t length, bool integer) {
    vo_buf_clear(&n->value);
    vo_buf_append(&n->value, text, length);
    n->has_value = true;
    n->integer = integer;
}

static void set_number(numbers *n, int number) {
    vo_buf_clear(&n->value);
    vo_buf_printf(&n->value, "%d", number);
    n->has_value = n->integer = true;
}

static void set_power_of_ten(numbers *n, int power) {
    set_text(n, "1", 1, true);
    for (int i = 0; i < power; i++) vo_buf_append(&n->value, "0", 1);
}

/* Appends to the row of digits; an integer 0 counts as nothing there, as in the reference, when
 * `drop_zero` is set. */
static void append_text(numbers *n, const char *text, size_t length, bool drop_zero) {
    bool zero = n->integer && n->value.size == 1 && n->value.data[0] == '0';
    if (!n->has_value || (drop_zero && zero)) vo_buf_clear(&n->value);
    vo_buf_append(&n->value, text, length);
    n->has_value = true;
    n->integer = false;
}

static void append_number(numbers *n, int number) {
    char text[16] = "";
    size_t at = sizeof text;
    do text[--at] = (char)('0' + number % 10);
    while (number /= 10);
    append_text(n, text + at, sizeof text - at, false);
}

/* True when the last `digits` digits of the integer are zeros (or all of it is 0). */
static bool ends_in_zeros(const numbers *n, size_t digits) {
    const vo_buf *v = &n->value;
    if (v->size == 1 && v->data[0] == '0') return true;
    if (v->size <= digits) return false; /* a shorter integer is not 0 */
    for (size_t i = v->size - digits; i < v->size; i++)
        if (v->data[i] != '0') return false;
    return true;
}

/* Integer that ends in zeros plus a number of at most two digits. */
static void add_number(numbers *n, int number) {
    vo_buf *v = &n->value;
    if (v->failed) return;
    if (v->size < 2) {
        set_number(n, number);
        return;
    }
    if (number >= 10) v->data[v->size - 2] = (char)('0' + number / 10);
    v->data[v->size - 1] = (char)('0' + number % 10);
}

static void strip_leading_zeros(vo_buf *digits) {
    size_t zeros = 0;
    while (zeros + 1 < digits->size && digits->data[zeros] == '0') zeros++;
    if (zeros == 0) return;
    memmove(digits->data, digits->data + zeros, digits->size - zeros + 1);
    digits->size -= zeros;
}

/* Integer: the part below 1000 times 10^power, plus the rest. */
static void multiply_rest(numbers *n, int power) {
    vo_buf *v = &n->value;
    if (v->failed) return;
    size_t tail = v->size < 3 ? v->size : 3;
    int rest = 0;
    for (size_t i = v->size - tail; i < v->size; i++) {
        rest = rest * 10 + (v->data[i] - '0');
        v->data[i] = '0';
    }
    vo_buf sum = {0}; /* lowest digit first */
    size_t longest = (v->size > (size_t)power + 3 ? v->size : (size_t)power + 3) + 1;
    for (size_t i = 0, carry = 0; i < longest; i++) {
        size_t digit = carry + (i < v->size ? (size_t)(v->data[v->size - 1 - i] - '0') : 0);
        if (i >= (size_t)power) {
            digit += (size_t)(rest % 10);
            rest /= 10;
        }
        char c = (char)('0' + digit % 10);
        carry = digit / 10;
        vo_buf_append(&sum, &c, 1);
    }
    for (size_t i = 0; !sum.failed && i < sum.size / 2; i++) {
        char c = sum.data[i];
        sum.data[i] = sum.data[sum.size - 1 - i];
        sum.data[sum.size - 1 - i] = c;
    }
    if (sum.failed) {
        v->failed = true;
    } else {
        strip_leading_zeros(&sum);
        set_text(n, sum.data, sum.size, true);
    }
    vo_buf_free(&sum);
}

/* Reads a decimal fraction ("2.5", ".5", "2.") times 10^power as an integer into out (ASCII
 * digits); false when the text is no fraction or the product is not whole. */
static bool scale_fraction(const char *s, size_t size, int power, vo_buf *out) {
    bool point = false, digit = false;
    int left = power;
    for (size_t i = 0; i < size;) {
        uint32_t cp = vo_read_char(s, size, &i);
        if (cp == '.') {
            if (point) return false;
            point = true;
            continue;
        }
        if (!vo_is_digit(cp)) return false;
        digit = true;
        char c = (char)('0' + vo_digit_value(cp));
        if (!point || left-- > 0)
            vo_buf_append(out, &c, 1);
        else if (c != '0')
            return false;
    }
    if (!digit) return false;
    while (left-- > 0) vo_buf_append(out, "0", 1);
    if (!out->failed) strip_leading_zeros(out);
    return true;
}

/* The value, read as a fraction, times 10^power; false when that is no integer. */
static bool scale_value(numbers *n, int power) {
    vo_buf product = {0};
    bool whole = scale_fraction(n->value.data ? n->value.data : "", n->value.size, power, &product);
    if (product.failed)
        n->value.failed = true;
    else if (whole)
        set_text(n, product.data, product.size, true);
    vo_buf_free(&product);
    return whole;
}

/* Bytes of the sign or currency that begins the word, 0 if none does. */
static size_t sign_length(const token *t) {
    size_t length = 0;
    switch (vo_read_char(t->text, t->length, &length)) {
    case '-':
    case '+':
    case '$':
    case 0xa2:   /* ¢ */
    case 0xa3:   /* £ */
    case 0x20ac: /* € */
        return length;
    default:
        return 0;
    }
}

static void on_digits(numbers *n, size_t sign) {
    const token *t = &n->current;
    const char *body = t->text + sign;
    size_t length = t->length - sign;
    if (n->has_value && !n->integer && n->value.size && n->value.data[n->value.size - 1] == '.') {
        append_text(n, t->text, t->length, false);
        return;
    }
    emit_value(n, "");
    if (sign) {
        n->prefix = t->text;
        n->prefix_length = sign;
    }
    set_text(n, "", 0, true);
    if (!scale_fraction(body, length, 0, &n->value)) set_text(n, body, length, false);
}

/* one ... nineteen, also as an ordinal or plural */
static void on_ones(numbers *n) {
    int ones = n->current.word->value;
    enum word_class before = n->prev.word->kind;
    if (!n->has_value) {
        set_number(n, ones);
    } else if (!n->integer || before == WORD_ONES) {
        if (before == WORD_TENS && ones < 10 && n->value.size) {
            n->value.data[n->value.size - 1] = (char)('0' + ones); /* "oh twenty" "one" -> 021 */
        } else {
            append_number(n, ones);
        }
    } else if (ends_in_zeros(n, ones < 10 ? 1 : 2)) {
        add_number(n, ones);
    } else {
        append_number(n, ones);
    }
    if (n->current.word->kind == WORD_ONES_SUFFIXED) emit_value(n, n->current.word->affix);
}

static void on_tens(numbers *n) {
    int tens = n->current.word->value;
    if (!n->has_value)
        set_number(n, tens);
    else if (n->integer && ends_in_zeros(n, 2))
        add_number(n, tens);
    else
        append_number(n, tens);
    if (n->current.word->kind == WORD_TENS_SUFFIXED) emit_value(n, n->current.word->affix);
}

static void on_multiplier(numbers *n) {
    int power = n->current.word->value;
    if (!n->has_value) {
        set_power_of_ten(n, power);
    } else if (n->integer) {
        multiply_rest(n, power);
    } else if (!scale_value(n, power)) {
        emit_value(n, "");
        set_power_of_ten(n, power);
    }
    if (n->current.word->kind == WORD_MULTIPLIER_SUFFIXED) emit_value(n, n->current.word->affix);
}

static bool next_is_number_word(const numbers *n) {
    return n->next.text && (n->next.word->kind != WORD_OTHER || n->next.numeric);
}

static void on_affix(numbers *n) {
    const number_word *word = n->current.word;
    if (word->kind == WORD_PRECEDING) {
        emit_value(n, "");
        if (next_is_number_word(n)) {
            n->prefix = word->affix;
            n->prefix_length = strlen(word->affix);
        } else {
            emit_current(n);
        }
    } else if (!n->has_value) {
        emit_current(n);
    } else if (word->kind == WORD_FOLLOWING) {
        n->prefix = word->affix;
        n->prefix_length = strlen(word->affix);
        emit_value(n, "");
    } else if (strcmp(word->text, "percent") == 0) {
        emit_value(n, "%");
    } else if (n->next.text && compare(n->next.text, n->next.length, "cent") == 0) {
        emit_value(n, "%");
        n->skip = true;
    } else {
        emit_value(n, "");
        emit_current(n);
    }
}

/* and, double, triple, point */
static void on_special(numbers *n) {
    const char *word = n->current.word->text;
    enum word_class next = n->next.word->kind;
    bool plain = !next_is_number_word(n);
    if (!plain && word[0] == 'p') {
        bool decimal = next == WORD_ONES || next == WORD_TENS || next == WORD_ZERO;
        if (decimal || n->next.numeric) append_text(n, ".", 1, true);
    } else if (!plain && word[0] == 'a') {
        plain = n->prev.word->kind != WORD_MULTIPLIER; /* "and" is silent in "hundred and one" */
    } else if (!plain && (next == WORD_ONES || next == WORD_ZERO)) {
        append_text(n, "", 0, true);
        for (int i = word[0] == 'd' ? 2 : 3; i > 0; i--) append_number(n, n->next.word->value);
        n->skip = true;
    } else {
        plain = true;
    }
    if (plain) {
        emit_value(n, "");
        emit_current(n);
    }
}

static void on_word(numbers *n) {
    size_t sign = sign_length(&n->current);
    if (is_numeric(n->current.text + sign, n->current.length - sign)) {
        on_digits(n, sign);
        return;
    }
    switch (n->current.word->kind) {
    case WORD_ZERO:
        append_text(n, "0", 1, true);
        break;
    case WORD_ONES:
    case WORD_ONES_SUFFIXED:
        on_ones(n);
        break;
    case WORD_TENS:
    case WORD_TENS_SUFFIXED:
        on_tens(n);
        break;
    case WORD_MULTIPLIER:
    case WORD_MULTIPLIER_SUFFIXED:
        on_multiplier(n);
        break;
    case WORD_PRECEDING:
    case WORD_FOLLOWING:
    case WORD_PERCENT:
        on_affix(n);
        break;
    case WORD_SPECIAL:
        on_special(n);
        break;
    default:
        emit_value(n, "");
        emit_current(n);
    }
}

static token read_token(const char *s, size_t size, size_t *pos) {
    token t = {NULL, 0, NULL, false};
    const char *word;
    size_t length;
    if (vo_next_word(s, size, pos, &word, &length)) {
        t.text = word;
        t.length = length;
        t.numeric = is_numeric(word, length);
    }
    t.word = find_number_word(t.text ? t.text : "", t.length);
    return t;
}

static void process_words(const char *s, size_t size, vo_buf *out) {
    numbers n = {.out = out};
    size_t pos = 0;
    n.prev = read_token(s, 0, &pos);
    n.current = read_token(s, size, &pos);
    while (n.current.text) {
        n.next = read_token(s, size, &pos);
        if (n.skip)
            n.skip = false;
        else
            on_word(&n);
        n.prev = n.current;
        n.current = n.next;
    }
    emit_value(&n, "");
    if (n.value.failed) out->failed = true;
    vo_buf_free(&n.value);
}

/* Length of "and <space> a <space> half" at s[pos] between word boundaries, else 0. */
static size_t and_a_half(const char *s, size_t size, size_t pos) {
    static const char *const words[] = {"and", "a", "half"};
    size_t i = pos;
    if (vo_word_before(s, pos)) return 0;
    for (int w = 0; w < 3; w++) {
        size_t length = strlen(words[w]), space = i;
        while (w > 0 && i < size) {
            space = i;
            if (!vo_is_python_space(vo_read_char(s, size, &space))) break;
            i = space;
        }
        if (w > 0 && (i == 0 || !vo_is_python_space(vo_char_before(s, i)))) return 0;
        if (size - i < length || memcmp(s + i, words[w], length) != 0) return 0;
        i += length;
    }
    return vo_word_at(s, size, i) ? 0 : i - pos;
}

/* The last word of a segment; false if it has none. */
static bool last_word(const char *s, size_t size, const char **word, size_t *length) {
    size_t pos = 0;
    bool any = false;
    const char *w;
    size_t n;
    while (vo_next_word(s, size, &pos, &w, &n)) {
        any = true;
        *word = w;
        *length = n;
    }
    return any;
}

/* "two and a half" -> "two point five" */
static void replace_halves(const char *s, size_t size, vo_buf *out) {
    size_t start = 0;
    bool first = true;
    for (size_t i = 0; i <= size; i++) {
        size_t half = 0;
        if (i < size) {
            i = vo_find_byte(s, size, i, 'a');
            if (i < size) half = and_a_half(s, size, i);
        }
        if (i < size && half == 0) continue;
        const char *word;
        size_t length;
        if (last_word(s + start, i - start, &word, &length)) { /* blank segments vanish */
            if (!first) vo_buf_append(out, " ", 1);
            first = false;
            vo_buf_append(out, s + start, i - start);
            enum word_class kind = find_number_word(word, length)->kind;
            bool number = kind == WORD_ZERO || kind == WORD_ONES || kind == WORD_TENS ||
                          kind == WORD_MULTIPLIER;
            if (half) vo_buf_puts(out, number ? " point five" : " and a half");
        }
        start = i + half;
        if (half) i = start - 1;
    }
}

static bool digit_at(const char *s, size_t size, size_t pos) {
    return pos < size && s[pos] >= '0' && s[pos] <= '9';
}

static bool letter_at(const char *s, size_t size, size_t pos) {
    return pos < size && s[pos] >= 'a' && s[pos] <= 'z';
}

/* A space at each border between letter and digit: "10k" -> "10 k". */
static void part_letters_from_digits(const char *s, size_t size, vo_buf *out) {
    for (size_t i = 0; i < size; i++) {
        vo_buf_append(out, s + i, 1);
        if ((letter_at(s, size, i) && digit_at(s, size, i + 1)) ||
            (digit_at(s, size, i) && letter_at(s, size, i + 1)))
            vo_buf_append(out, " ", 1);
    }
}

/* But none before the suffix of an ordinal or plural: "10 th" -> "10th". */
static void join_suffixes(const char *s, size_t size, vo_buf *out) {
    static const char *const suffixes[] = {"st", "nd", "rd", "th", "s"};
    for (size_t i = 0; i < size;) {
        vo_buf_append(out, s + i, 1);
        if (!digit_at(s, size, i++)) continue;
        size_t word = i;
        while (word < size) {
            size_t after = word;
            if (!vo_is_python_space(vo_read_char(s, size, &after))) break;
            word = after;
        }
        for (size_t k = 0; word > i && k < sizeof suffixes / sizeof suffixes[0]; k++) {
            size_t length = strlen(suffixes[k]);
            if (size - word < length || memcmp(s + word, suffixes[k], length) != 0) continue;
            if (!vo_word_at(s, size, word + length)) {
                i = word;
                break;
            }
        }
    }
}

/* Bytes of a sign of €, £, $ at s[pos], else 0. */
static size_t currency_at(const char *s, size_t size, size_t pos) {
    if (pos >= size) return 0;
    size_t start = pos;
    uint32_t cp = vo_read_char(s, size, &pos);
    return cp == '$' || cp == 0xa3 || cp == 0x20ac ? pos - start : 0;
}

/* One or two digits that end at a word boundary: their number, else 0. */
static size_t cents_at(const char *s, size_t size, size_t pos) {
    if (!digit_at(s, size, pos)) return 0;
    size_t n = digit_at(s, size, pos + 1) ? 2 : 1;
    return vo_word_at(s, size, pos + n) ? 0 : n;
}

/* "$2 and ¢7" -> "$2.07" */
static void combine_cents(const char *s, size_t size, vo_buf *out) {
    static const char cent[] = "\xc2\xa2";
    for (size_t i = 0; i < size;) {
        size_t end = i, whole = i + currency_at(s, size, i), cents = 0;
        if (whole > i) {
            end = whole;
            while (digit_at(s, size, end)) end++;
            size_t p = end;
            if (p > whole && p < size && s[p] == ' ') {
                p++;
                if (size - p >= 4 && memcmp(s + p, "and ", 4) == 0) p += 4;
                if (size - p >= 2 && memcmp(s + p, cent, 2) == 0) cents = cents_at(s, size, p + 2);
                if (cents) {
                    vo_buf_append(out, s + i, end - i);
                    vo_buf_puts(out, cents == 1 ? ".0" : ".");
                    vo_buf_append(out, s + p + 2, cents);
                    i = p + 2 + cents;
                    continue;
                }
            }
        }
        vo_buf_append(out, s + i, 1);
        i++;
    }
}

/* "$0.07" -> "¢7"; the reference lets any character stand for the period. */
static void extract_cents(const char *s, size_t size, vo_buf *out) {
    for (size_t i = 0; i < size;) {
        size_t zero = i + currency_at(s, size, i);
        if (zero > i && zero + 1 < size && s[zero] == '0' && s[zero + 1] != '\n') {
            size_t p = zero + 1;
            vo_read_char(s, size, &p);
            size_t cents = cents_at(s, size, p);
            if (cents) {
                vo_buf_puts(out, "\xc2\xa2");
                bool leading_zero = cents == 2 && s[p] == '0';
                vo_buf_append(out, s + p + leading_zero, cents - leading_zero);
                i = p + cents;
                continue;
            }
        }
        vo_buf_append(out, s + i, 1);
        i++;
    }
}

/* "1" and "1s" alone are written "one" and "ones". */
static void spell_one(const char *s, size_t size, vo_buf *out) {
    for (size_t i = 0; i < size; i++) {
        bool one = s[i] == '1' && !vo_word_before(s, i);
        size_t after = i + 1 + (i + 1 < size && s[i + 1] == 's');
        if (one && !vo_word_at(s, size, after))
            vo_buf_puts(out, "one");
        else
            vo_buf_append(out, s + i, 1);
    }
}

void vo_normalize_numbers(const char *s, size_t size, vo_buf *out) {
    typedef void (*step)(const char *text, size_t length, vo_buf *result);
    static const step steps[] = {replace_halves, part_letters_from_digits,
                                 join_suffixes,  process_words,
                                 combine_cents,  extract_cents};
    vo_buf buffers[2] = {{0}, {0}};
    if (size == 0) return;
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        vo_buf *to = &buffers[i & 1];
        vo_buf_clear(to);
        steps[i](s, size, to);
        s = to->data ? to->data : "";
        size = to->size;
    }
    spell_one(s, size, out);
    if (buffers[0].failed || buffers[1].failed) out->failed = true;
    vo_buf_free(&buffers[0]);
    vo_buf_free(&buffers[1]);
}
