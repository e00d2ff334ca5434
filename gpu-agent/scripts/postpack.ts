/** After `npm pack`: the package's folder is the checkout's again. */
import { restoreCheckout } from "./pack-places.ts";

await restoreCheckout();
