/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/* One object for all programs of the host's side, because they share their maps. */
#include "alive.h"
#include "divert.h"
#include "guard.h"
#include "redirects.h"

char _license[] SEC("license") = "Dual MIT/GPL";
