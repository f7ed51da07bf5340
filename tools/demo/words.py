# SPDX-License-Identifier: Apache-2.0
"""Word lists for the story generator: names, beings, things, places and matched records."""

SHE_NAMES = """Matilda Rosa Ida Nell Clementine Odette Hazel Bettina Greta Wilma Agnes Juniper
Marigold Pearl Tilda Dora Edith Flora Hetty Ines Lotte Mabel Nora Olive Petra Ruby Saffron Thea
Ursula Vera Winnie Zelda Bea Cora Della Ella Freya Gilda Hilda Iris Josie Kitty Luna Mina""".split()

HE_NAMES = """Pip Barnaby Otto Felix Gus Humphrey Jasper Leopold Milo Ned Oswald Percy Quentin
Rufus Silas Toby Victor Walter Alfie Boris Casper Desmond Edgar Finn Gilbert Hugo Ivo Jonas
Karl Lionel Magnus Nestor Oskar Pascal Ralph Simon Tobias Ulric
Wendell Bruno Cosmo Dexter""".split()

# Kinds that any name fits; then those that are always "she" or always "he".
ANIMALS = """hedgehog badger fox goose mouse mole rabbit hare otter heron toad frog bear squirrel
crow hen donkey goat snail beetle cat dog pig sheep duck penguin owl weasel bat moth lizard
tortoise pony raccoon magpie sparrow walrus""".split()
PEOPLE = """baker;tailor;clockmaker;lighthouse keeper;gardener;painter;pirate;ferryman;shepherd;
cook;piano teacher;blacksmith;chimney sweep;map maker;librarian;postman;kite maker;cobbler;
beekeeper;tram driver;astronomer;candle maker""".replace("\n", "").split(";")
ODD = """robot;ghost;dragon;giant;troll;scarecrow;snowman;goblin;sea monster;cloud""".split(";")
SHE_KINDS = ["girl", "queen", "witch", "princess", "farmer's daughter", "lady of the lake"]
HE_KINDS = ["boy", "king", "wizard", "knight", "prince", "woodcutter's son"]
ELDERS = """owl;tortoise;heron;toad;carp;raven;badger;walrus;spider;moth;hare;crow;
goose;goat;snail;stork""".replace("\n", "").split(";")

LISTS = """
= adj
small ; shy ; clumsy ; tidy ; cheerful ; stubborn ; curious ; sleepy ; polite ; proud ; brave ;
gloomy ; patient ; forgetful ; hungry ; hopeful ; nervous ; lazy ; clever ; round ; talkative ;
dreamy ; careful ; grumpy ; very tall ; rather short ; young ; lonely ; thoughtful ; noisy
= mood
happy ; worried ; pleased ; puzzled ; tired ; excited ; ashamed ; hopeful ; surprised ; cross ;
sad ; calm ; proud ; frightened ; astonished
= tadj
red ; blue ; yellow ; green ; silver ; golden ; wooden ; brass ; striped ; crooked ; tiny ; old ;
rusty ; purple ; spotted ; glass ; copper ; velvet ; shiny ; cracked ; patched ; painted
= noun
kite ; umbrella ; spoon ; whistle ; button ; key ; lantern ; teapot ; hat ; scarf ; boot ; bell ;
drum ; trumpet ; wheelbarrow ; clock ; compass ; fiddle ; mirror ; bucket ; ladder ; basket ;
suitcase ; blanket ; telescope ; candle ; feather ; marble ; ring ; teacup ; slipper ; top
= thing
{@tadj} {@noun}
= food
pancakes ; plum cake ; onion soup ; warm bread ; apple pie ; porridge ; gooseberry jam ; toast ;
dumplings ; cheese ; honey buns ; pumpkin pie ; ginger biscuits ; mushroom stew ; cherry tart ;
roast chestnuts ; pea soup ; cinnamon rolls ; blackberry pudding ; hot chocolate
= drink
tea ; cocoa ; apple juice ; nettle tea ; warm milk ; blackberry cordial ; barley broth
= place
a village by the sea ; a crooked house by the river ; a cottage at the edge of the forest ; a
tower on top of a windy hill ; a houseboat that no longer floated ; a mill without a wheel ; a
town with more bridges than streets ; a valley full of bells ; an old railway carriage ; a
lighthouse at the end of the land ; a hollow oak ; a house as narrow as a book ; an inn on an
island shaped like a boot ; a street where it always smelled of bread ; a garden gone wild ; a
small kingdom between two mountains ; a room above the clock shop ; a cave with a blue door ; a
barn at the end of a long lane ; a wagon with three good wheels
= far
the far side of the hill ; the old stone bridge ; the harbour ; the top of the church tower ; the
edge of the marsh ; the market square ; the frozen lake ; the bottom of the garden ; the clearing
in the dark wood ; the empty castle ; the last house in the valley ; the sand dunes ; the ruined
mill ; the railway station ; the other end of the island ; the orchard wall
= spot
under the bed ; behind the stove ; in the biscuit tin ; inside the piano ; on top of the wardrobe
; down the well ; among the cabbages ; in the coal cellar ; between the pages of a cookbook ; in
the pocket of an old coat ; beneath the doormat ; up the chimney ; in the hen house ; behind the
curtain ; under a flowerpot ; at the bottom of the soup ; in the laundry basket
= skill
to whistle ~ whistling ~ made a sound like a kettle with a cold ; to sing ~ singing ~ made the
milk turn sour ; to juggle ~ juggling ~ broke eleven eggs and a window ; to dance ~ dancing ~ fell
into the flour ; to skate ~ skating ~ went backwards through a hedge ; to yodel ~ yodelling ~ woke
up three villages ; to knit ~ knitting ~ knitted {h.self} to the chair ; to ride a bicycle ~
cycling ~ rode straight into the duck pond ; to play the trumpet ~ playing the trumpet ~ blew the
hat off a passing bishop ; to bake bread ~ baking ~ made a loaf so hard that it broke the table ;
to do magic ~ doing magic ~ made {h.his} own shoes disappear ; to tell jokes ~ telling jokes ~
made a baby cry ; to fly ~ flying ~ landed in the compost ; to walk on a tightrope ~ tightrope
walking ~ came down in a basket of wet laundry ; to play the fiddle ~ playing the fiddle ~ made
all the dogs leave town ; to swim ~ swimming ~ drank half of the river
= noise
a slow scraping sound ~ a snail, dragging home a wardrobe ; a long sad moan ~ the wind, playing on
an empty bottle ; a knocking, three times and then once ~ a woodpecker who had lost the address of
his tree ; a rattle like bones ~ a mouse with a box of dominoes ; a deep rumbling growl ~ {f},
fast asleep and snoring ; a thin high whistle ~ a kettle that somebody had left out for the moon ;
heavy footsteps going round and round ~ a bear walking in its sleep ; a voice whispering numbers ~
a spider counting its own legs ; a terrible crunching ~ a rabbit who ate celery to calm its nerves
; a splash, and then a sigh ~ an old carp practising how to say hello ; a faint music, a little
out of tune ~ a beetle with a very small accordion
= wish
never to be cold again ~ a small sun followed {h.him} everywhere, humming ~ nobody in the house
could sleep ; to be as tall as a tree ~ birds built nests in {h.his} hair ~ {h.he} no longer
fitted through any door ; to understand the animals ~ the hens talked all day about the price of
corn ~ the pig would not stop giving advice ; to have more {food} than anyone ~ {food} came down
the chimney and in at the windows ~ there was nowhere left to sit ; to be invisible ~ people sat
down on {h.him} in the tram ~ nobody said good morning any more ; always to be right ~ everybody
sighed when {h.he} opened {h.his} mouth ~ there was no one left to talk to ; that every day were
Sunday ~ the shops stayed shut for a month ~ the bread ran out and so did the jokes ; to fly ~
{h.he} floated up to the ceiling and stayed there ~ soup is hard to eat upside down ; to be rich ~
every pebble in the garden turned to gold ~ the potatoes did too ; to have a hundred friends ~ a
hundred friends came to supper ~ there were only two chairs
= machine
buttering toast ~ buttered the cat, the curtains and the mayor ~ curing squeaky doors ; catching
moonbeams ~ caught eleven moths and a cold ~ drying socks ; peeling onions ~ wept so much that it
rusted ~ watering the garden ; waking people gently ~ went off like a cannon ~ frightening away
burglars ; combing sheep ~ combed them into the shape of clouds ~ making pillows ; writing letters
~ wrote nothing but the word "however" ~ keeping lawyers busy ; sweeping snow ~ swept it all into
the kitchen ~ making lemon ice ; counting stars ~ counted to four and fainted ~ sending small
children to sleep ; carrying soup ~ ran away with the soup ~ delivering the post
= question
why the moon keeps changing its shape ~ It is only breathing. You do it too, but faster. ; where
the wind goes when it stops ~ Home. It has a small house and a great many hats. ; how long a
moment is ~ Exactly as long as this one. ; what is at the end of the world ~ A fence, a bench, and
somebody selling tea. ; why the sea is salty ~ Because so many people have waved goodbye to it. ;
who was here first, the egg or the hen ~ The one who was hungry. ; what silence sounds like ~ You
had it in your pocket until you asked. ; where lost socks go ~ They are not lost. They have found
each other. ; how to be happy ~ Have you tried {@food}? ; what the stars are for ~ For looking up.
It is good for the neck. ; why time goes so fast on Sundays ~ Because nobody is pushing it, it
runs downhill.
= seed
a brass button ~ a tree full of tiny coats ; a broken key ~ a bush covered in little doors ; a
fish bone ~ a fountain that swam ; a crumb of {@food} ~ a hedge that smelled of breakfast ; an old
letter ~ a tall flower that read aloud ; a guitar string ~ a vine that hummed at dusk ; a stub of
candle ~ a lily that glowed all night ; a joke written on paper ~ a tree that shook with laughter
; a single sock ~ a willow hung with stockings ; a lump of coal ~ a small black pine, warm as a
stove
= behind
a kitchen where the spoons were having a party ~ a spoon bowed and offered {h.him} a dance ; a
tiny railway station ~ the stationmaster, a beetle, asked to see {h.his} ticket ; a garden where
it was always four o'clock ~ tea was being poured, and a chair stood ready for {h.him} ; a library
of books that nobody had written yet ~ one of the books had {h.his} name on it ; another door, and
behind it another door ~ behind the last one stood {h.self}, looking just as surprised ; a beach
with a grey and quiet sea ~ a bottle floated ashore with a note that said: You are late ; a room
full of lost umbrellas ~ they all opened at once, to say good morning ; a staircase that went down
to the stars ~ somebody had left a lamp burning and a plate of {@food}
= guest
the moon ~ having a night off ~ the moon stays a little longer over that roof ; the North Wind ~
tired of slamming doors ~ the wind always knocks before it comes in ; winter ~ on the way to the
south for a rest ~ the first snow always falls on that garden ; the king ~ running away from a
very long speech ~ a basket of royal pears arrives every autumn ; a star ~ who had slipped and
fallen ~ one star above the chimney winks ; the sea ~ who wanted to see what a house is like ~
there are shells on the doorstep every morning ; Sleep ~ who was on the way to a difficult baby ~
nobody in that house has had a bad dream ; a thundercloud ~ who was afraid of thunder ~ it never
rains on washing day
= egg
a very small dragon ~ sneezed and lit the stove ; a penguin ~ asked for ice ; a cloud no bigger
than a cushion ~ rained a little on the carpet ; a clockwork bird ~ struck three ; another,
smaller egg ~ looked rather pleased with itself ; a snail with wings ~ flew once round the lamp,
slowly ; a griffin with cold feet ~ climbed into a slipper ; a tiny elephant ~ drank all the
{@drink}
= royal
could not sleep ~ slept like a stone ; could not laugh ~ laughed until the crown fell off ; had
the hiccups ~ stopped in the middle of a hiccup ; had lost all appetite ~ asked for a second plate
; was bored of everything ~ clapped and shouted "Again!" ; could not stop sneezing ~ gave one last
sneeze and was cured
= addressee
the moon ~ Dear friend, I see you too. You should fix your roof. ; the sea ~ Come and visit. Bring
a towel. ; the winter ~ I am sorry about your nose. I am shy. ; whoever lives across the river ~
At last! I have been waving for years. ; the last train ~ I whistle because I am afraid of the
tunnel. ; yesterday ~ Stop looking for me. I left you something for tomorrow. ; the giant in the
hill ~ I am not angry. That is only my stomach. ; the oldest tree in the wood ~ Thank you. Nobody
writes to a tree. Lean on me any time.
= contest
a race to the old mill ~ stopped to admire {r.his} own reflection ~ {h} walked past, step by step
; a contest for the longest nap ~ was too excited to sleep ~ {h} had been snoring since breakfast
; a pancake contest ~ threw a pancake so high that it never came down ~ {h} made one good one, and
shared it ; a singing contest ~ sang so loudly that {r.his} voice cracked ~ {h} hummed, and the
birds joined in ; a staring contest ~ was distracted by a butterfly ~ {h} had simply forgotten to
look away ; a boat race ~ had packed too many mirrors and sank ~ {h} came drifting by in a bathtub
; a snowman contest ~ built a tower that fell on {r.his} head ~ {h} gave {h.his} snowman a friend
; a contest in keeping quiet ~ told everyone how good {r.he} was at it ~ {h} had not said a word
since Tuesday
= stolen
spoons ~ magpie ~ making a mirror, so as not to be alone ; socks ~ mouse ~ sewing blankets for
nine children ; buttons ~ crow ~ making eyes for a scarecrow who could not see ; candles ~ moth ~
holding a ball and had invited everyone but was too shy to say so ; teacups ~ frog ~ building a
very small harbour ; left shoes ~ fox ~ opening a hotel for beetles ; apples ~ hedgehog ~ trying
to teach them to roll uphill ; door bells ~ ghost ~ hoping that somebody would come and visit
= boast
a dragon in the coal cellar ~ dragon ; a giant for an uncle ~ giant ; a lion under the bed ~ lion
; a ghost who does the washing up ~ ghost ; a whale in the well ~ whale ; a bear who comes to tea
~ bear ; a sea monster on a string ~ sea monster ; a wolf for a friend ~ wolf
= quarrel
whether soup is a drink or a meal ; who had seen the first swallow ; how to pronounce the word
"scone" ; which of them was the taller ; whose turn it was to light the stove ; whether clouds
have a front and a back ; a joke that only one of them had liked ; who had invented the sandwich ;
the right way to fold a map ; whether the sea is blue or green
= purchase
a bottle of fog ~ the room was so full of fog that nobody could find the door ; a second-hand
Tuesday ~ it was Tuesday until the end of the week ; a jar of echoes ~ the house repeated
everything, mostly the rude parts ; a pocketful of wind ~ all the papers in the house went out to
see the world ; a box of thunder ~ the cups danced off the shelf ; a pair of very fast boots ~ the
boots went for a walk without anyone in them ; a talking hat ~ the hat corrected everyone's
grammar ; a tin of darkness ~ it was midnight in the kitchen for three days
= job
lighthouse keeper ~ lit the lamp, and was so proud of it that {h.he} forgot to turn it ; baker ~
forgot the yeast, so that all the bread was flat and had to be sold as plates ; postman ~ read all
the addresses upside down ; barber ~ cut the mayor's hair in the shape of a duck ; clock winder ~
wound the clock so tight that noon came twice ; night watchman ~ shouted "All is well!" so often
that nobody slept ; teacher ~ learned more from the children than they learned from {h.him} ;
goose herd ~ was soon being herded by the geese ; king for a day ~ made a law against wet socks
"""
